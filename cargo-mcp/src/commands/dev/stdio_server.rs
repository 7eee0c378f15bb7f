//! A server process that exchanges lines over stdin and stdout.

use std::{
    io,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use super::process::{EXIT_TIMEOUT, ProcessGroup, describe_exit, end, terminate};
use crate::output::{forward, server_stderr};

/// The time to read remaining output after the process exited. Its descendants may hold the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running server. Dropping it discards lines that are not yet written.
#[derive(Debug)]
pub(super) struct StdioServer {
    input: Option<mpsc::UnboundedSender<String>>,
    writer: AbortHandle,
    stop: Option<oneshot::Sender<()>>,
}

/// Output of a server process.
#[derive(Debug)]
pub(super) enum ServerOutput {
    /// A line on stdout, without its end.
    Line(String),
    /// The process exited. Always last.
    Exited(String),
}

impl StdioServer {
    /// Starts a server and sends its output to `output`. The returned future completes when the process has exited.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub(super) fn start<T: Send + 'static>(
        mut command: Command,
        backlog: Backlog,
        output: mpsc::Sender<T>,
        wrap: impl Fn(ServerOutput) -> T + Send + 'static,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(server_stderr()).spawn()?;
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(forward(stderr));
        }
        let group = ProcessGroup::of(&child);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("stdin and stdout are not piped"));
        };
        let (input, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(stdin, lines, backlog)).abort_handle();
        let (stop, stopped) = oneshot::channel();
        let supervision = supervise(child, group, stdout, stopped, writer.clone(), output, wrap);
        Ok((Self { input: Some(input), writer, stop: Some(stop) }, supervision))
    }

    /// Queues a line.
    pub(super) fn send(&self, line: String) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }

    /// Closes stdin once all queued lines are written.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends the process. No output is sent from here on.
    pub(super) fn stop(mut self) {
        self.input = None;
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.writer.abort();
        }
    }
}

/// Writes queued lines to stdin.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>, backlog: Backlog) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        // A write fails only if the process exited, which the supervisor notices.
        let written = stdin.write_all(line.as_bytes()).await;
        backlog.remove(line.len() - 1);
        if written.is_err() {
            break;
        }
    }
    while let Ok(line) = lines.try_recv() {
        backlog.remove(line.len());
    }
}

/// Sends the output of a process until the process exits or is stopped.
async fn supervise<T: Send + 'static>(
    mut child: Child,
    group: ProcessGroup,
    stdout: impl AsyncRead + Unpin + Send,
    mut stop: oneshot::Receiver<()>,
    writer: AbortHandle,
    output: mpsc::Sender<T>,
    wrap: impl Fn(ServerOutput) -> T + Send,
) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut exited: Option<(String, Instant)> = None;
    loop {
        let drained = exited.as_ref().map_or_else(Instant::now, |(_, at)| *at + DRAIN_TIMEOUT);
        tokio::select! {
            biased;
            _ = &mut stop => {
                tokio::join!(end(&mut child, Some(group)), discard(&mut stdout, &writer));
                return;
            }
            read = stdout.read_until(b'\n', &mut line) => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                line.clear();
                tokio::select! {
                    biased;
                    sent = output.send(wrap(ServerOutput::Line(text))) => if sent.is_err() { break },
                    _ = &mut stop => return end(&mut child, Some(group)).await,
                }
                if let Some((_, at)) = &mut exited {
                    *at = Instant::now();
                }
            }
            status = child.wait(), if exited.is_none() => exited = Some((describe_exit(status), Instant::now())),
            () = sleep_until(drained), if exited.is_some() => break,
        }
    }
    writer.abort();
    let how = match exited {
        Some((how, _)) => how,
        None => match timeout(DRAIN_TIMEOUT, child.wait()).await {
            Ok(status) => describe_exit(status),
            Err(_) => {
                terminate(&mut child, group).await;
                let _ = output.send(wrap(ServerOutput::Exited("it closed its stdout".to_owned()))).await;
                return;
            }
        },
    };
    drop(group);
    let _ = output.send(wrap(ServerOutput::Exited(how))).await;
}

/// Discards output, so that a process which is being stopped does not block on a full pipe.
///
/// Gives up on writing queued lines, and thereby closes stdin, after half of the time that the process has to exit.
async fn discard(stdout: &mut (impl AsyncBufReadExt + Unpin), writer: &AbortHandle) {
    let mut line = Vec::new();
    let drain = async {
        while stdout.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            line.clear();
        }
    };
    let abort_writer = async {
        tokio::time::sleep(EXIT_TIMEOUT / 2).await;
        writer.abort();
    };
    tokio::select! {
        () = drain => {}
        () = abort_writer => {}
    }
}

/// The limit in bytes. While a backlog exceeds it, input that would add to it is not read.
const MAX_BYTES: usize = 8 << 20;

/// Counts the bytes that wait to be written and wakes the task that waits for room.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog {
    bytes: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

impl Backlog {
    /// Returns an empty backlog that wakes the same task as this one.
    pub(super) fn sibling(&self) -> Self {
        Self { bytes: Arc::default(), room: Arc::clone(&self.room) }
    }

    /// Counts bytes that were queued.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were written or discarded.
    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_one();
    }

    /// Returns whether the backlog is below its limit.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < MAX_BYTES
    }

    /// Waits until something is removed from this backlog or a sibling.
    pub(super) async fn removed(&self) {
        self.room.notified().await;
    }
}
