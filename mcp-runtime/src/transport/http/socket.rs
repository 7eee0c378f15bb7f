//! A connection below HTTP: clients that take nothing, and connections that are too many.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};

use crate::{error::Fault, revision};

/// The most connections that are being told that they are too many; those beyond are closed without a word.
const TURNED_AWAY: usize = 256;
/// How long a connection that is turned away is read, for nobody.
const LINGER: Duration = Duration::from_secs(1);
/// The time between two complaints about too many connections.
const COMPLAINT: Duration = Duration::from_secs(10);

/// A connection that ends when its client has taken nothing of what waits for it for too long.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    patience: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        let _ = stream.set_nodelay(true);
        Self { stream, patience, stalled: None }
    }

    /// Lets a write wait only as long as the client takes something now and then.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        stalled.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
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
        self.watch(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(written, cx)
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

/// The places that connections take.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    turning_away: Arc<Semaphore>,
    refusal: Bytes,
    complained: Option<Instant>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            turning_away: Arc::new(Semaphore::new(TURNED_AWAY)),
            refusal: refusal().into(),
            complained: None,
        }
    }

    /// Gives a connection its place, or turns it away.
    ///
    /// A connection too many is answered with 503 and not left waiting: its client knows what is wrong, and a proxy asks another
    /// server at once, while one that waits unaccepted looks to both like a server that hangs.
    pub(super) fn admit(&mut self, stream: TcpStream) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        match Arc::clone(&self.free).try_acquire_owned() {
            Ok(place) => Some((stream, place)),
            Err(_) => {
                self.complain();
                self.turn_away(stream);
                None
            }
        }
    }

    fn turn_away(&self, mut stream: TcpStream) {
        let Ok(turning_away) = Arc::clone(&self.turning_away).try_acquire_owned() else { return };
        let refusal = self.refusal.clone();
        tokio::spawn(async move {
            let telling = async {
                stream.write_all(&refusal).await?;
                stream.shutdown().await?;
                // A request that is not read makes a reset of the end, which can take the answer with it.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(LINGER, telling).await;
            drop(turning_away);
        });
    }

    fn complain(&mut self) {
        if self.complained.is_none_or(|complained| complained.elapsed() > COMPLAINT) {
            self.complained = Some(Instant::now());
            tracing::warn!("there are too many connections: new ones are turned away");
        }
    }
}

/// What a connection too many is told.
fn refusal() -> Vec<u8> {
    let mut body = Vec::new();
    crate::engine::refuse(&mut body, revision::newest(), None, &Fault::overloaded("there are too many connections"));
    let mut response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.append(&mut body);
    response
}
