//! A process between this one and an HTTP server, which ends the server even if this process is killed.
//!
//! The watchdog is another instance of this program. Its stdin is a pipe that is never written to: when it closes, the
//! parent has exited. A server on stdio needs no watchdog, since it exits when its own stdin closes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use super::process::{LaunchConfig, ShutdownSignals, describe_exit, end, send_terminate};
use crate::{failure::Failure, output::outln};

/// Returns the command of a watchdog that runs a server.
///
/// # Errors
///
/// Returns an error if the path of this program is unknown.
pub(super) fn command(program: &Path, launch: &LaunchConfig) -> std::io::Result<Command> {
    let mut args = vec!["dev".to_owned(), "--watchdog".to_owned(), program.to_string_lossy().into_owned()];
    args.push("--".to_owned());
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
pub(super) async fn run(program: PathBuf, args: Vec<String>, mut signals: ShutdownSignals) -> Result<(), Failure> {
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
