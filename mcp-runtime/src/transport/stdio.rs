//! The stdin and stdout of the process, and the signals that end it.
//!
//! Pipes and sockets are registered with the I/O driver. Terminals and files do not support that, so tokio's blocking
//! threads read and write them.

use std::{
    fs::File,
    future::pending,
    io::{self, Write},
    process, thread,
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::stderr;
#[cfg(unix)]
use crate::stdx::race;

/// Exclusive access to stdin and stdout.
#[derive(Debug)]
pub(crate) struct Stdio {
    stdin: File,
    stdout: File,
}

/// A pair of byte streams.
pub(crate) type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Stdio {
    /// Claims stdin and stdout. From then on, all output that the process prints goes to stderr, where it cannot
    /// corrupt a message, and the stdin of child processes is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if stdin or stdout is closed.
    #[cfg(unix)]
    pub(crate) fn claim() -> io::Result<Self> {
        use std::os::fd::AsFd;

        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self { stdin, stdout })
    }

    /// Claims stdin and stdout. Output that the process prints still goes to stdout, since safe code cannot redirect it
    /// on Windows.
    ///
    /// # Errors
    ///
    /// Returns an error if stdin or stdout is closed.
    #[cfg(windows)]
    pub(crate) fn claim() -> io::Result<Self> {
        use std::os::windows::io::AsHandle;

        let stdin = File::from(io::stdin().as_handle().try_clone_to_owned()?);
        let stdout = File::from(io::stdout().as_handle().try_clone_to_owned()?);
        Ok(Self { stdin, stdout })
    }

    /// Prints text for the user. Ignores errors, such as a closed pipe.
    pub(crate) fn print(&self, text: &str) {
        let _ = (&self.stdout).write_all(text.as_bytes());
    }

    /// Returns whether stdin is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&self.stdin)
    }

    /// Converts both into asynchronous streams.
    ///
    /// # Errors
    ///
    /// Returns an error if a pipe or socket cannot be registered with the I/O driver.
    pub(crate) fn into_streams(self) -> io::Result<Streams> {
        #[cfg(unix)]
        return Ok((unix::reader(self.stdin)?, unix::writer(self.stdout)?));
        #[cfg(not(unix))]
        Ok((Box::new(tokio::fs::File::from_std(self.stdin)), Box::new(tokio::fs::File::from_std(self.stdout))))
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::File,
        io,
        os::{
            fd::OwnedFd,
            unix::{fs::FileTypeExt, net},
        },
    };

    use tokio::{
        io::{AsyncRead, AsyncWrite},
        net::{UnixStream, unix::pipe},
    };

    pub(super) fn reader(file: File) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let kind = file.metadata()?.file_type();
        Ok(if kind.is_fifo() {
            Box::new(pipe::Receiver::from_owned_fd(file.into())?)
        } else if kind.is_socket() {
            Box::new(stream(file)?)
        } else {
            Box::new(tokio::fs::File::from_std(file))
        })
    }

    pub(super) fn writer(file: File) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let kind = file.metadata()?.file_type();
        Ok(if kind.is_fifo() {
            Box::new(pipe_writer(file)?)
        } else if kind.is_socket() {
            Box::new(stream(file)?)
        } else {
            Box::new(tokio::fs::File::from_std(file))
        })
    }

    /// Reopens the pipe, so that stderr stays in blocking mode if it is the same pipe.
    fn pipe_writer(file: File) -> io::Result<pipe::Sender> {
        use std::os::fd::AsRawFd;

        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match pipe::OpenOptions::new().open_sender(path) {
            Ok(sender) => Ok(sender),
            Err(_) => pipe::Sender::from_owned_fd(file.into()),
        }
    }

    fn stream(file: File) -> io::Result<UnixStream> {
        let stream = net::UnixStream::from(OwnedFd::from(file));
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }
}

/// The time within which several signals are one: `timeout` sends one to the process and one to its group.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// Completes when the process receives a shutdown signal: SIGTERM or Ctrl-C.
///
/// The signal handlers are registered on the first poll. A separate thread listens for signals as well, so that a
/// function that blocks the server's thread cannot keep the process alive. That thread ends the process at the second
/// signal, or when the shutdown takes longer than `limit`.
pub(crate) async fn shutdown_signal(limit: Duration) {
    let (mut signals, watchdog_signals) = match Signals::register().and_then(|first| Ok((first, Signals::register()?)))
    {
        Ok(both) => both,
        Err(error) => {
            tracing::warn!(%error, "cannot handle signals: they will end the process without a graceful shutdown");
            return pending().await;
        }
    };
    let watchdog = thread::Builder::new().name("signals".to_owned());
    if let Err(error) = watchdog.spawn(move || run_watchdog(watchdog_signals, limit)) {
        warn_about_hanging(&error);
    }
    // The transport polls this future often, and a task is cheaper to poll than signals.
    let received = tokio::spawn(async move { signals.next().await });
    let _ = received.await;
}

/// Ends the process at the second signal, or when this time has passed after the first signal.
fn run_watchdog(mut signals: Signals, limit: Duration) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return warn_about_hanging(&error),
    };
    runtime.block_on(async {
        signals.next().await;
        let repeated = async {
            loop {
                signals.next().await;
            }
        };
        let _ = tokio::time::timeout(ONE_SIGNAL, repeated).await;
        match tokio::time::timeout(limit, signals.next()).await {
            Ok(()) => tracing::warn!("ending the process at once, because of a second signal"),
            Err(_) => {
                tracing::warn!("ending the process: the shutdown takes too long, so a function may be blocking it")
            }
        }
        stderr::flush();
        process::exit(0);
    });
}

fn warn_about_hanging(error: &io::Error) {
    tracing::warn!(%error, "cannot watch the shutdown: a blocking function can keep the process from ending");
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn register() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        let _ = race(self.terminate.recv(), self.interrupt.recv()).await;
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn register() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
