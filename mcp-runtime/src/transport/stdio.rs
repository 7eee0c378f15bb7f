//! The stdin and stdout of the process.
//!
//! Pipes and sockets are registered with the I/O driver. Terminals and files do not support that, so tokio's blocking
//! threads read and write them.

use std::{
    fs::File,
    io::{self, Write},
};

use tokio::io::{AsyncRead, AsyncWrite};

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
