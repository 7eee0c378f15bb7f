//! Child processes: started in a process group, and ended with everything they started.

use std::{io, path::Path, process::ExitStatus, time::Duration};

use tokio::{
    process::{Child, Command},
    time::timeout,
};

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
pub(super) fn send_terminate(child: &Child) {
    if let Some(id) = process_id(child) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
pub(super) fn send_terminate(_: &Child) {}

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

/// Receives the signals that ask this process to exit: interrupt, terminate and hang-up.
pub(super) struct ShutdownSignals {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl ShutdownSignals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    ///
    /// Returns an error if a handler cannot be installed.
    #[cfg(unix)]
    pub(super) fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let signals =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        Ok(Self { signals })
    }

    /// Does nothing: Ctrl-C needs no handler in advance.
    #[cfg(not(unix))]
    pub(super) fn install() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(super) async fn recv(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for Ctrl-C.
    #[cfg(not(unix))]
    pub(super) async fn recv(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
