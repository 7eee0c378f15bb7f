//! Child processes: started in a process group, and ended with everything they started.

use std::{io, time::Duration};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// The time that a process has to exit after its input closed, and again after it was asked to terminate.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A child process, which is killed with its descendants when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// The group that the child leads, also after it has exited. `None` once it was killed.
    #[cfg(unix)]
    group: Option<Pid>,
}

impl Process {
    /// Starts a command in a new process group: Ctrl-C does not reach it.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        #[cfg(unix)]
        let group = process_id(&child);
        Ok(Self {
            child,
            #[cfg(unix)]
            group,
        })
    }

    /// Asks the process and its descendants to terminate. Does nothing on Windows.
    pub(crate) fn terminate(&self) {
        #[cfg(unix)]
        if let Some(group) = self.group {
            // Fails if the group has ended.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Kills the process and, on Unix, its descendants.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.start_kill();
    }

    /// Waits for a process that was asked to exit. Terminates and finally kills it if it does not.
    pub(crate) async fn end(mut self) {
        if timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            self.terminate();
            let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
        }
        self.kill();
        let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks a single process to terminate. Does nothing on Windows.
pub(crate) fn terminate(child: &Child) {
    #[cfg(unix)]
    if let Some(id) = process_id(child) {
        let _ = rustix::process::kill_process(id, Signal::TERM);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Returns the id of a child that was not waited for.
#[cfg(unix)]
fn process_id(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;

    /// Exits while a process that it has started waits for a line. Scripts, `npx` and the like start servers in this way.
    const SCRIPT: &str = "exec 3<&0; { echo started; read line <&3; echo survived; } &";

    #[tokio::test]
    async fn everything_that_a_process_has_started_ends_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command).expect("a shell");
        let mut stdin = process.child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(process.child.stdout.take().expect("a pipe")).lines();
        assert_eq!(lines.next_line().await.expect("a line").as_deref(), Some("started"));
        process.child.wait().await.expect("the shell exits");
        drop(process);
        // Fails if there is no reader any more.
        let _ = stdin.write_all(b"\n").await;
        assert_eq!(lines.next_line().await.expect("the end"), None);
    }
}
