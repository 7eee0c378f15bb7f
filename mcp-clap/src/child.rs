//! Calls as child processes.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    sync::Semaphore,
    time::sleep,
};

/// How often a program is asked whether it has ended, while its output is read.
const POLL: Duration = Duration::from_millis(50);
/// How long the output is read after the end of the program, which may have left a process behind.
const REST: Duration = Duration::from_secs(1);

/// A program that calls start.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    output_limit: usize,
    /// A permit for each child process.
    processes: Semaphore,
}

impl Program {
    /// Creates a program with a number of processes at the same time, and of bytes in the text of each stream.
    pub fn new(path: PathBuf, output_limit: usize, max_processes: usize) -> Self {
        Self { path, output_limit, processes: Semaphore::new(max_processes.clamp(1, Semaphore::MAX_PERMITS)) }
    }

    /// Runs the program to its end, and kills it if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns what the model reads if the program cannot be started, or fails.
    pub async fn run(&self, arguments: Vec<String>) -> Result<String, String> {
        let _permit = self.processes.acquire().await.map_err(|error| error.to_string())?;
        let fail = |error: io::Error| format!("the output of the program cannot be read: {}", error.kind());
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| {
            tracing::error!(path = %self.path.display(), %error, "the program of a tool cannot be started");
            format!("the program cannot be started: {}", error.kind())
        })?;
        #[cfg(unix)]
        let group = ProcessGroup::of(&child);
        let (pipes, limit) = ((child.stdout.take(), child.stderr.take()), self.output_limit);
        let (mut stdout, mut stderr) = (Output::default(), Output::default());
        let complete = tokio::select! {
            read = async { tokio::try_join!(stdout.read(pipes.0, limit), stderr.read(pipes.1, limit)) } => {
                read.map_err(fail)?;
                true
            }
            () = end_of_output(&mut child) => false,
        };
        #[cfg(unix)]
        if !complete {
            group.kill();
        }
        let status = child.wait().await.map_err(fail)?;
        #[cfg(unix)]
        group.forget();
        let (stdout, stderr) = (stdout.text(limit), stderr.text(limit));
        if !status.success() {
            let parts = [status.to_string(), stderr, stdout];
            return Err(parts
                .iter()
                .map(|part| part.trim_end())
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n"));
        }
        Ok(if stdout.is_empty() { stderr } else { stdout })
    }
}

/// The beginning of a stream.
#[derive(Default)]
struct Output {
    kept: Vec<u8>,
    discarded: usize,
}

impl Output {
    /// Reads to the end, so that the program is never blocked.
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<()> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 8192];
        loop {
            let count = pipe.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            let kept = count.min(limit - self.kept.len());
            self.kept.extend_from_slice(&buffer[..kept]);
            self.discarded += count - kept;
        }
    }

    /// Returns at most `limit` bytes as text, and says how many are missing.
    fn text(&self, limit: usize) -> String {
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        // Each byte that is not UTF-8 has become three.
        let mut end = limit.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let missing = self.discarded + text.len() - end;
        text.truncate(end);
        if missing > 0 {
            text.push_str(&format!("\n[truncated: {missing} more bytes than the limit of {limit}]"));
        }
        text
    }
}

/// Returns some time after the end of a child, which remains to be waited for.
async fn end_of_output(child: &mut Child) {
    while !has_ended(child) {
        sleep(POLL).await;
    }
    sleep(REST).await;
}

#[cfg(unix)]
fn has_ended(child: &mut Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    id(child).is_none_or(|id| !matches!(waitid(WaitId::Pid(id), options), Ok(None)))
}

#[cfg(not(unix))]
fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

#[cfg(unix)]
fn id(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(child.id()?.try_into().ok()?)
}

/// Kills a child and its own children when dropped.
///
/// The child has not been waited for as long as this exists, so that no other group can have its id.
#[cfg(unix)]
struct ProcessGroup(Option<rustix::process::Pid>);

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(id(child))
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // Fails if the group has ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    fn forget(mut self) {
        self.0 = None;
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
