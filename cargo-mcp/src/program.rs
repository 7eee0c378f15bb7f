//! A server process as a transport of the official client. Records its exit status and stray output for error messages.

use std::{
    io,
    pin::Pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    process::{ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::{
    output::{forward, server_stderr},
    process::{EXIT_TIMEOUT, Process},
    raw_connection::MAX_MESSAGE_BYTES,
};

/// The time to print the remaining output on stderr after the program has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum length of a recorded line.
const MAX_LINE: usize = 200;

/// Observes a program. Clones share their observations.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessObserver(Arc<Mutex<Observations>>);

#[derive(Debug, Default)]
struct Observations {
    exit_status: Option<ExitStatus>,
    /// The first line on stdout that is not a message.
    stray_line: Option<String>,
    /// The incomplete last line.
    line: Vec<u8>,
}

impl ProcessObserver {
    /// Returns how the program exited, if it did.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.update(|observations| observations.exit_status)
    }

    /// Returns the first line on stdout that is not a message.
    pub(crate) fn stray_line(&self) -> Option<String> {
        self.update(|observations| observations.stray_line.clone())
    }

    fn record_output(&self, bytes: &[u8]) {
        self.update(|observations| {
            if observations.stray_line.is_some() {
                return;
            }
            for byte in bytes {
                match byte {
                    b'\n' => observations.end_line(),
                    _ if observations.line.len() < MAX_LINE => observations.line.push(*byte),
                    _ => {}
                }
            }
        });
    }

    fn record_exit(&self, status: ExitStatus) {
        self.update(|observations| {
            observations.exit_status = Some(status);
            observations.end_line();
        });
    }

    fn update<T>(&self, update: impl FnOnce(&mut Observations) -> T) -> T {
        update(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observations {
    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        // A message is a JSON object, and a batch is an array.
        if !line.is_empty() && !line.starts_with(['{', '[']) && self.stray_line.is_none() {
            self.stray_line = Some(line);
        }
    }
}

/// The transport to a program that this process started.
pub(crate) struct Program {
    // Declared before the process, so that the pipes are closed first.
    pipes: AsyncRwTransport<RoleClient, ObservedStdout, ChildStdin>,
    process: Process,
    /// Prints what the program writes to stderr.
    log: Option<JoinHandle<()>>,
    observer: ProcessObserver,
}

impl Program {
    /// # Errors
    ///
    /// Fails as [`Process::start`] does.
    pub(crate) fn start(mut command: Command, observer: ProcessObserver) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(server_stderr());
        let mut process = Process::start(&mut command)?;
        let pipes = (process.child.stdout.take(), process.child.stdin.take());
        let (Some(output), Some(input)) = pipes else {
            return Err(io::Error::other("stdin and stdout are not piped"));
        };
        let log = process.child.stderr.take().map(|stderr| tokio::spawn(forward(stderr)));
        let output = ObservedStdout { output, observer: observer.clone() };
        let pipes = AsyncRwTransport::new(output, input).with_max_line_length(MAX_MESSAGE_BYTES);
        Ok(Self { pipes, process, log, observer })
    }

    async fn exits_within(&mut self, limit: Duration) -> bool {
        match tokio::time::timeout(limit, self.process.child.wait()).await {
            Ok(Ok(status)) => {
                self.observer.record_exit(status);
                if let Some(log) = self.log.take() {
                    // Descendants of the program may hold the pipe open.
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, log).await;
                }
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl Transport<RoleClient> for Program {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sending = self.pipes.send(message);
        async move {
            match sending.await {
                // The program has exited. `receive` reads its last output and reports the exit.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.pipes.receive().await;
        if message.is_none() {
            self.exits_within(Duration::from_millis(500)).await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.pipes.close().await?;
        if self.exits_within(EXIT_TIMEOUT).await {
            return Ok(());
        }
        self.process.terminate();
        if self.exits_within(EXIT_TIMEOUT).await {
            return Ok(());
        }
        self.process.kill();
        self.process.child.wait().await.map(drop)
    }
}

/// A program's stdout, which is observed while the client reads it.
struct ObservedStdout {
    output: ChildStdout,
    observer: ProcessObserver,
}

impl AsyncRead for ObservedStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        self.observer.record_output(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
