//! Child processes: started in a process group, and ended with everything they started.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::timeout,
};

use crate::{failure::Failure, output::outln, signals::ShutdownSignals};

/// The time that a process has to exit after its input closed, and again after it was asked to terminate.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The arguments and environment variables of the server.
#[derive(Debug, Clone)]
pub(super) struct LaunchConfig {
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

impl LaunchConfig {
    /// Returns a command that runs a program in a process group.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        use_process_group(&mut command);
        command
    }
}

/// Makes a command start in a new process group and end with this process.
pub(super) fn use_process_group(command: &mut Command) {
    command.kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
}

/// A process group, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct ProcessGroup(#[cfg(unix)] Option<rustix::process::Pid>);

#[cfg(unix)]
impl ProcessGroup {
    /// Returns the group that a child leads.
    pub(super) fn of(child: &Child) -> Self {
        Self(process_id(child))
    }

    fn terminate(&self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    pub(super) fn of(_: &Child) -> Self {
        Self()
    }

    fn terminate(&self) {}
}

/// Waits for a process that was asked to exit. Terminates and finally kills it if it does not.
pub(super) async fn end(child: &mut Child, group: Option<ProcessGroup>) {
    if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
        if let Some(group) = &group {
            group.terminate();
        }
        if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
            let _ = child.start_kill();
        }
    }
    drop(group);
    let _ = timeout(EXIT_TIMEOUT, child.wait()).await;
}

/// Terminates a process group, then waits as [`end`] does.
pub(super) async fn terminate(child: &mut Child, group: ProcessGroup) {
    group.terminate();
    end(child, Some(group)).await;
}

/// Asks a single process to terminate.
#[cfg(unix)]
fn send_terminate(child: &Child) {
    if let Some(id) = process_id(child) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn send_terminate(_: &Child) {}

#[cfg(unix)]
fn process_id(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

/// Returns whether a process with this id is running.
#[cfg(unix)]
pub(super) fn is_running(id: i32) -> bool {
    let test = rustix::process::test_kill_process;
    rustix::process::Pid::from_raw(id).is_some_and(|id| !matches!(test(id), Err(rustix::io::Errno::SRCH)))
}

#[cfg(not(unix))]
pub(super) fn is_running(_: i32) -> bool {
    true
}

/// Describes how a process exited.
pub(super) fn describe_exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Returns the command of a watchdog that runs a server: a process between this one and an HTTP server, which ends the
/// server even if this process is killed.
///
/// The watchdog is another instance of this program. Its stdin is a pipe that is never written to: when it closes, the
/// parent has exited. A server on stdio needs no watchdog, since it exits when its own stdin closes.
///
/// # Errors
///
/// Returns an error if the path of this program is unknown.
pub(super) fn watchdog_command(program: &Path, launch: &LaunchConfig) -> std::io::Result<Command> {
    let mut args = ["dev", "--watchdog", &program.to_string_lossy(), "--"].map(str::to_owned).to_vec();
    args.extend(launch.args.iter().cloned());
    let mut command = LaunchConfig { args, env: launch.env.clone() }.command(&std::env::current_exe()?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Reads from the stdout of a watchdog how its server exited.
pub(super) async fn read_exit(stdout: Option<impl AsyncRead + Unpin>) -> Option<String> {
    let mut text = String::new();
    stdout?.read_to_string(&mut text).await.ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Runs a server until it exits, a signal arrives, or the parent process is gone.
pub(super) async fn run_watchdog(
    program: PathBuf,
    args: Vec<String>,
    mut signals: ShutdownSignals,
) -> Result<(), Failure> {
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            outln!("cannot run the executable: {error}");
            return Ok(());
        }
    };
    let (sender, parent_gone) = tokio::sync::oneshot::channel::<()>();
    // tokio's stdin cannot be abandoned while it reads, so a thread reads it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(sender);
    });
    let is_orphaned = tokio::select! {
        status = child.wait() => {
            outln!("{}", describe_exit(status));
            return Ok(());
        }
        // The signal went to the whole process group, which includes the server.
        () = signals.recv() => false,
        _ = parent_gone => true,
    };
    if is_orphaned {
        send_terminate(&child);
    }
    end(&mut child, None).await;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;

    /// Exits while a process that it has started waits for a line.
    const SCRIPT: &str = "exec 3<&0; { echo started; read line <&3; echo survived; } &";

    #[tokio::test]
    async fn everything_that_a_process_has_started_ends_with_its_group() {
        let launch = LaunchConfig { args: ["-c", SCRIPT].map(str::to_owned).to_vec(), env: Vec::new() };
        let mut command = launch.command(Path::new("sh"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let group = ProcessGroup::of(&child);
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert_eq!(lines.next_line().await.expect("a line").as_deref(), Some("started"));
        child.wait().await.expect("the shell exits");
        drop(group);
        // Fails if there is no reader any more.
        let _ = stdin.write_all(b"\n").await;
        assert_eq!(lines.next_line().await.expect("the end"), None);
    }
}
