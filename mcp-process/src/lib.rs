//! Runs programs for calls.
//!
//! - Exit code 0: the result is stdout as text, or stderr if stdout is empty. Bytes that are not UTF-8 are replaced.
//! - Any other exit code: the call fails with the exit code, stderr and stdout.
//! - Of each stream, the beginning is kept, up to a limit. The text says if it was truncated.
//! - A process that the program leaves behind with stdout or stderr open is killed on Unix about one second after the program has ended,
//!   and the result is what was read until then.
//! - A call that is cancelled or exceeds its timeout kills the program, on Unix with its process group.
//! - While the program runs, the lines that it writes to stderr are progress of the call: the number of lines so far that are not empty, and the first
//!   1,024 bytes of the newest line as the message, without escape sequences and control characters. There is no total, since only
//!   the program knows the meaning of numbers in its lines. Of lines within [`Context::PROGRESS_INTERVAL`], only the last one is sent.
//!   `\r` ends a line, too, but programs that draw a progress bar usually do so in a terminal only. The client receives these lines
//!   even if the program succeeds, so **the program must not print secrets to stderr**.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use anstream::adapter::strip_str;
use mcp_runtime::Context;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

/// How often a program is asked whether it has ended, while its output is read.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the output is read after the end of the program, which may have left a process behind.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum length of a line that is reported as progress, in bytes. The rest is left out.
const MAX_LINE: usize = 1024;

/// A program that calls run, with limits for its output and the number of processes.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    output_limit: usize,
    /// A permit for each child process.
    processes: Semaphore,
}

impl Program {
    /// Creates a runner for the program at `path`.
    ///
    /// `output_limit` is the maximum length of stdout and of stderr in a result, each in bytes. `max_processes` is the number of
    /// processes at the same time (at least 1); further calls wait.
    pub fn new(path: PathBuf, output_limit: usize, max_processes: usize) -> Self {
        Self { path, output_limit, processes: Semaphore::new(max_processes.clamp(1, Semaphore::MAX_PERMITS)) }
    }

    /// Runs the program to its end, and kills it if the future is dropped. The lines of stderr become progress of the call.
    ///
    /// # Errors
    ///
    /// Returns what the model reads if the program cannot be started, or fails.
    pub async fn run(&self, arguments: Vec<String>, ctx: &Context) -> Result<String, String> {
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
        let mut progress = Progress { ctx, line: Vec::new(), lines: 0, pending: None, reported: None };
        let complete = tokio::select! {
            read = async { tokio::try_join!(
                stdout.read(pipes.0, limit, |_| false),
                stderr.read(pipes.1, limit, |bytes| progress.report(bytes)),
            ) } => {
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

/// Reports the lines of stderr, numbered, as progress. If several arrive within the interval, only the last one is reported.
struct Progress<'a> {
    ctx: &'a Context,
    /// The beginning of the current line.
    line: Vec<u8>,
    lines: u32,
    /// The last complete line, until it is reported.
    pending: Option<String>,
    reported: Option<Instant>,
}

impl Progress<'_> {
    /// Returns whether a line is pending.
    fn report(&mut self, bytes: &[u8]) -> bool {
        // `\r` ends a line that the next one overwrites in a terminal.
        for part in bytes.split_inclusive(|byte| b"\r\n".contains(byte)) {
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if !part.ends_with(b"\r") && !part.ends_with(b"\n") {
                break;
            }
            let text = strip_str(&String::from_utf8_lossy(&self.line)).to_string();
            let text = text.replace(|c: char| c.is_control() && c != '\t', "");
            // The limit may be inside a character.
            let text = text.trim().trim_end_matches(char::REPLACEMENT_CHARACTER);
            if !text.is_empty() {
                self.lines += 1;
                self.pending = Some(text.to_owned());
            }
            self.line.clear();
        }
        if self.reported.is_none_or(|reported| reported.elapsed() >= Context::PROGRESS_INTERVAL)
            && let Some(text) = self.pending.take()
        {
            self.ctx.progress(self.lines, (), text);
            self.reported = Some(Instant::now());
        }
        self.pending.is_some()
    }
}

/// The beginning of a stream.
#[derive(Default)]
struct Output {
    kept: Vec<u8>,
    discarded: usize,
}

impl Output {
    /// Reads to the end, so that the program is never blocked. As long as `report` returns true, it is called again soon, also at
    /// the end.
    async fn read(
        &mut self,
        pipe: Option<impl AsyncRead + Unpin>,
        limit: usize,
        mut report: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 8192];
        let mut is_pending = false;
        loop {
            let read = pipe.read(&mut buffer);
            let count = if !is_pending {
                read.await?
            } else if let Ok(count) = timeout(Context::PROGRESS_INTERVAL, read).await {
                count?
            } else {
                is_pending = report(&[]);
                continue;
            };
            if count == 0 {
                if is_pending {
                    sleep(Context::PROGRESS_INTERVAL).await;
                    report(&[]);
                }
                return Ok(());
            }
            is_pending = report(&buffer[..count]);
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
        sleep(EXIT_POLL_INTERVAL).await;
    }
    sleep(DRAIN_TIMEOUT).await;
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn pending_lines_are_reported_at_the_end() {
        let mut reported = Vec::new();
        let report = |bytes: &[u8]| {
            reported.push(bytes.to_vec());
            true
        };
        Output::default().read(Some(&b"line\n"[..]), 10, report).await.unwrap();
        assert_eq!(reported, [b"line\n".to_vec(), Vec::new()]);
    }

    #[tokio::test]
    async fn pending_lines_are_reported_while_the_program_is_silent() {
        let (mut program, pipe) = tokio::io::duplex(16);
        let (sender, mut reported) = tokio::sync::mpsc::unbounded_channel();
        let report = move |bytes: &[u8]| sender.send(bytes.len()).is_ok() && !bytes.is_empty();
        tokio::spawn(async move { Output::default().read(Some(pipe), 10, report).await });
        program.write_all(b"line\n").await.unwrap();
        for expected in [Some(5), Some(0)] {
            let found = timeout(Duration::from_secs(20), reported.recv()).await;
            assert_eq!(found, Ok(expected));
        }
        drop(program);
        assert_eq!(reported.recv().await, None);
    }

    /// A semaphore panics if it has more permits than its maximum.
    #[test]
    fn any_number_of_processes_can_be_permitted() {
        for (max_processes, expected) in [(0, 1), (7, 7), (usize::MAX, Semaphore::MAX_PERMITS)] {
            let program = Program::new(PathBuf::from("/bin/true"), 0, max_processes);
            assert_eq!(program.processes.available_permits(), expected);
        }
    }

    /// Each byte that is not UTF-8 becomes three.
    #[test]
    fn output_is_truncated_between_characters() {
        let output = Output { kept: b"a\xff\xff".to_vec(), discarded: 2 };
        assert_eq!(output.text(3), "a\n[truncated: 8 more bytes than the limit of 3]");
    }
}
