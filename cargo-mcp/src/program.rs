//! A server process as a transport of the official client. Records its exit status and stray output for error messages.

use std::{
    io,
    ops::{Deref, DerefMut},
    pin::Pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
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

use crate::output::{forward, server_stderr};
use crate::raw_connection::MAX_MESSAGE_BYTES;

/// The time that a program has to exit after its stdin is closed, and again after it is asked to terminate.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
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

/// A process that is killed with its descendants when this is dropped.
pub(crate) struct Process(Box<dyn ChildWrapper>);

impl Process {
    /// Starts a program in a new process group: Ctrl-C does not reach it.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started.
    pub(crate) fn start(command: Command) -> io::Result<Self> {
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(KillOnDrop);
        #[cfg(unix)]
        wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
        wrapped.spawn().map(Self)
    }
}

impl Deref for Process {
    type Target = dyn ChildWrapper;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.start_kill();
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
        let mut process = Process::start(command)?;
        let pipes = (process.stdout().take(), process.stdin().take());
        let (Some(output), Some(input)) = pipes else {
            return Err(io::Error::other("stdin and stdout are not piped"));
        };
        let log = process.stderr().take().map(|stderr| tokio::spawn(forward(stderr)));
        let output = ObservedStdout { output, observer: observer.clone() };
        let pipes = AsyncRwTransport::new(output, input).with_max_line_length(MAX_MESSAGE_BYTES);
        Ok(Self { pipes, process, log, observer })
    }

    async fn exits_within(&mut self, limit: Duration) -> bool {
        match tokio::time::timeout(limit, self.process.wait()).await {
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
        #[cfg(unix)]
        {
            const SIGTERM: i32 = 15;
            let _ = self.process.signal(SIGTERM);
            if self.exits_within(EXIT_TIMEOUT).await {
                return Ok(());
            }
        }
        Box::into_pin(self.process.kill()).await
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

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs::File,
        io::{BufRead as _, BufReader, Read as _},
    };

    use tokio::task::spawn_blocking;

    use super::*;

    /// Scripts, `npx` and the like start the server as a process of their own.
    #[tokio::test]
    async fn a_program_that_is_dropped_ends_with_its_descendants() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().await.unwrap().success());
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"(echo started; exec sleep 60) >"$0" & wait"#]).arg(&fifo);
        let program = Program::start(shell, ProcessObserver::default()).unwrap();
        let started = spawn_blocking(move || {
            let mut output = BufReader::new(File::open(fifo).unwrap());
            output.read_line(&mut String::new()).unwrap();
            output
        });
        let mut output = started.await.unwrap();
        drop(program);
        // The output ends with the last process that can write to it.
        let ended = spawn_blocking(move || output.read_to_end(&mut Vec::new()).unwrap());
        assert_eq!(tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap().unwrap(), 0);
    }
}
