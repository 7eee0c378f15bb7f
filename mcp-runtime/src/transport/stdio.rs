//! The process's own stdin and stdout.
//!
//! Pipes and sockets are read and written where the server runs, without a thread between. Terminals and files cannot be
//! waited for that way, so that tokio's blocking threads read and write them.

use std::{
    fs::File,
    io::{self, Write},
};

use tokio::io::{AsyncRead, AsyncWrite};

/// Stdin and stdout, kept from everything else in the process.
#[derive(Debug)]
pub(crate) struct Stdio {
    stdin: File,
    stdout: File,
}

/// A pair of byte streams.
pub(crate) type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Stdio {
    /// Takes stdin and stdout. What the program prints from now on goes to stderr, where it cannot break a message, and
    /// a process that it starts has nothing on stdin.
    ///
    /// # Errors
    ///
    /// Those of the operating system, when stdin or stdout is closed.
    #[cfg(unix)]
    pub(crate) fn claim() -> io::Result<Self> {
        use std::os::fd::AsFd;

        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self { stdin, stdout })
    }

    /// Takes stdin and stdout. What the program prints goes to stdout all the same: nothing that is safe code moves it here.
    ///
    /// # Errors
    ///
    /// Those of the operating system, when stdin or stdout is closed.
    #[cfg(windows)]
    pub(crate) fn claim() -> io::Result<Self> {
        use std::os::windows::io::AsHandle;

        let stdin = File::from(io::stdin().as_handle().try_clone_to_owned()?);
        let stdout = File::from(io::stdout().as_handle().try_clone_to_owned()?);
        Ok(Self { stdin, stdout })
    }

    /// Prints for a person; a reader that has gone has seen enough.
    pub(crate) fn print(&self, text: &str) {
        let _ = (&self.stdout).write_all(text.as_bytes());
    }

    /// Says whether a person sits at stdin.
    pub(crate) fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&self.stdin)
    }

    /// Makes streams of them.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
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
        Ok(match () {
            () if kind.is_fifo() => Box::new(pipe::Receiver::from_owned_fd(file.into())?),
            () if kind.is_socket() => Box::new(stream(file)?),
            () => Box::new(tokio::fs::File::from_std(file)),
        })
    }

    pub(super) fn writer(file: File) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let kind = file.metadata()?.file_type();
        Ok(match () {
            () if kind.is_fifo() => Box::new(pipe_writer(file)?),
            () if kind.is_socket() => Box::new(stream(file)?),
            () => Box::new(tokio::fs::File::from_std(file)),
        })
    }

    /// Opens the pipe once more, so that stderr keeps blocking where it is the same pipe.
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
