//! A server that is a program: its process, its standard input and output, and what is known of it when something goes wrong.

use std::{
    io,
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
};

/// How long a program may take to end once its standard input is closed, before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How much of a line is kept.
const LINE: usize = 200;

/// What is seen of a program from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    ended: Option<ExitStatus>,
    /// The first line of its output that cannot be a message.
    stray: Option<String>,
    /// The line that is being read.
    line: Vec<u8>,
}

impl Witness {
    /// How it ended, if it did.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.seen(|seen| seen.ended)
    }

    /// The first line that it wrote to its standard output and that is no message.
    pub(crate) fn stray(&self) -> Option<String> {
        self.seen(|seen| seen.stray.clone())
    }

    fn read(&self, bytes: &[u8]) {
        self.seen(|seen| {
            if seen.stray.is_some() {
                return;
            }
            for byte in bytes {
                match byte {
                    b'\n' => seen.end_line(),
                    _ if seen.line.len() < LINE => seen.line.push(*byte),
                    _ => {}
                }
            }
        });
    }

    fn end(&self, status: ExitStatus) {
        self.seen(|seen| {
            seen.ended = Some(status);
            seen.end_line();
        });
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        // A message is an object, and a batch of them an array.
        if !line.is_empty() && !line.starts_with(['{', '[']) && self.stray.is_none() {
            self.stray = Some(line);
        }
    }
}

/// The transport of a program that was started here.
pub(crate) struct Program {
    // Before the process: what is dropped first is closed first.
    pipes: AsyncRwTransport<RoleClient, Watched, ChildStdin>,
    process: Box<dyn ChildWrapper>,
    witness: Witness,
}

impl Program {
    /// Starts a program in a process group of its own, so that Ctrl-C reaches us alone, and its children end with it.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(crate) fn start(mut command: Command, witness: Witness) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(KillOnDrop);
        #[cfg(unix)]
        wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
        let mut process = wrapped.spawn()?;
        let pipes = (process.stdout().take(), process.stdin().take());
        let (Some(output), Some(input)) = pipes else {
            return Err(io::Error::other("its standard input and output are not piped"));
        };
        let output = Watched { output, witness: witness.clone() };
        Ok(Self { pipes: AsyncRwTransport::new(output, input), process, witness })
    }

    async fn ended_within(&mut self, time: Duration) -> bool {
        match tokio::time::timeout(time, self.process.wait()).await {
            Ok(Ok(status)) => {
                self.witness.end(status);
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
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
                // It has ended, or is about to: how, and what it said before, is learnt where we listen to it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.pipes.receive().await;
        if message.is_none() {
            self.ended_within(Duration::from_millis(500)).await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.pipes.close().await?;
        if self.ended_within(GRACE).await {
            return Ok(());
        }
        #[cfg(unix)]
        {
            const SIGTERM: i32 = 15;
            let _ = self.process.signal(SIGTERM);
            if self.ended_within(GRACE).await {
                return Ok(());
            }
        }
        Box::into_pin(self.process.kill()).await
    }
}

/// A program's standard output, whose lines are looked at while they pass.
struct Watched {
    output: ChildStdout,
    witness: Witness,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        self.witness.read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
