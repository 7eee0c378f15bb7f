//! What stands between this process and a server that reads no stdin, so that the server ends however this process does.
//!
//! The guard is this program once more. Its stdin is a pipe that nothing is written to: when it closes, nobody is there any more.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use super::{
    Stops,
    process::{command, describe, end},
};
use crate::failure::Failure;

/// The command of a guard for a server.
///
/// # Errors
///
/// It is not known where this program is.
pub(super) fn guarded(program: &Path, args: &[String], env: &[(String, String)]) -> std::io::Result<Command> {
    let ours = std::env::current_exe()?;
    let mut words = vec!["dev".to_owned(), "--guard".to_owned()];
    words.push(program.to_string_lossy().into_owned());
    words.push("--".to_owned());
    words.extend(args.iter().cloned());
    let mut command = command(&ours, &words, env);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// How the server of a guard ended, which says so on its stdout.
pub(super) async fn how(stdout: Option<impl AsyncRead + Unpin>) -> Option<String> {
    let mut text = String::new();
    stdout?.read_to_string(&mut text).await.ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Runs a server until it ends, this process is told to end, or nobody is there any more.
pub(super) async fn run(program: PathBuf, args: Vec<String>, mut stops: Stops) -> Result<(), Failure> {
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            crate::stdout::outln!("it cannot be started: {error}");
            return Ok(());
        }
    };
    let (gone, is_gone) = tokio::sync::oneshot::channel::<()>();
    // A thread, since tokio's own could not be left reading at the end.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(gone);
    });
    let is_left = tokio::select! {
        status = child.wait() => {
            crate::stdout::outln!("{}", describe(status));
            return Ok(());
        }
        // Whoever told us told the server, too: it is in this group.
        () = stops.next() => false,
        _ = is_gone => true,
    };
    if is_left {
        super::process::hang_up(&child);
    }
    end(&mut child, None).await;
    Ok(())
}
