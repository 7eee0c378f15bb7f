//! The process's own stdin and stdout.
//!
//! Pipes and sockets are read and written where the server runs, without a thread between. Terminals and files cannot be
//! waited for that way, so that tokio's blocking threads read and write them.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// Stdin and stdout, taken over for messages.
pub(crate) struct Stdio {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stdio {
    /// Takes stdin and stdout. What the program prints from now on goes to stderr, where it cannot break a message.
    ///
    /// # Errors
    ///
    /// Those of the operating system, when stdin or stdout is closed.
    #[cfg(unix)]
    pub(crate) fn take() -> io::Result<Self> {
        use std::os::fd::AsFd;

        let reader = unix::reader(io::stdin().as_fd().try_clone_to_owned()?)?;
        let writer = unix::writer(io::stdout().as_fd().try_clone_to_owned()?)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self { reader, writer })
    }

    /// Takes stdin and stdout.
    ///
    /// # Errors
    ///
    /// None on this platform.
    #[cfg(not(unix))]
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self { reader: Box::new(tokio::io::stdin()), writer: Box::new(tokio::io::stdout()) })
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

    pub(super) fn reader(fd: OwnedFd) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let file = File::from(fd);
        let kind = file.metadata()?.file_type();
        Ok(match () {
            () if kind.is_fifo() => Box::new(pipe::Receiver::from_owned_fd(file.into())?),
            () if kind.is_socket() => Box::new(stream(file)?),
            () => Box::new(tokio::io::stdin()),
        })
    }

    pub(super) fn writer(fd: OwnedFd) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let file = File::from(fd);
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
