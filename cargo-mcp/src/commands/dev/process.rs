//! The processes of servers, and the watchdogs of those over HTTP.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    time::timeout,
};

use crate::{
    failure::Failure,
    output::outln,
    process::{EXIT_TIMEOUT, terminate},
    signals::ShutdownSignals,
};

/// The arguments and environment variables of the server.
#[derive(Debug, Clone)]
pub(super) struct LaunchConfig {
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

impl LaunchConfig {
    /// Returns the command that runs a program.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
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
        terminate(&child);
    }
    if timeout(2 * EXIT_TIMEOUT, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    Ok(())
}
