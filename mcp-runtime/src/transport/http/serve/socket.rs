//! TCP connections: a timeout for clients that stop reading, and a limit on their number.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};

use crate::{error::Fault, transport::http::response};

/// The maximum number of connections being rejected with a response at a time. Others are closed without a response.
const MAX_REJECTIONS: usize = 256;
/// The maximum time spent on responding to a rejected connection and discarding what it sends.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes of a rejected connection that are read and discarded.
const LINGER_BYTES: u64 = 256 << 10;
/// The minimum time between two warnings about too many connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection that fails when its client accepts no data for the duration of the write timeout.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    write_timeout: Duration,
    /// The end of the write timeout, set while a write is pending.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        let _ = stream.set_nodelay(true);
        Self { stream, write_timeout, deadline: None }
    }

    /// Turns a pending write into an error after the timeout.
    fn limit_write<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.write_timeout)));
        deadline.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "write timed out")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit_write(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.limit_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The limit on the number of connections.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    permits: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
    rejection: Bytes,
    last_warning: Option<Instant>,
}

impl ConnectionLimit {
    pub(super) fn new(max: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max)),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
            rejection: rejection().into(),
            last_warning: None,
        }
    }

    /// Returns the connection with its permit, or rejects it and returns `None` if there are too many.
    ///
    /// A rejected connection receives a 503 response: its client learns the reason, and a proxy can try another server.
    /// If it were left unaccepted instead, the server would appear to hang.
    pub(super) fn admit(&mut self, stream: TcpStream) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some((stream, permit));
        }
        self.warn();
        self.reject(stream);
        None
    }

    fn reject(&self, mut stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.rejections).try_acquire_owned() else { return };
        let rejection = self.rejection.clone();
        tokio::spawn(async move {
            let write = async {
                stream.write_all(&rejection).await?;
                stream.shutdown().await?;
                // Closing a socket with unread data resets the connection, which can discard the response.
                tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(LINGER, write).await;
            drop(permit);
        });
    }

    fn warn(&mut self) {
        if self.last_warning.is_none_or(|warning| warning.elapsed() > WARNING_INTERVAL) {
            self.last_warning = Some(Instant::now());
            tracing::warn!("too many connections: rejecting new ones");
        }
    }
}

/// Encodes the response to a rejected connection.
fn rejection() -> Vec<u8> {
    let mut body = response::error_message(&Fault::overloaded("too many connections"));
    let mut response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.append(&mut body);
    response
}
