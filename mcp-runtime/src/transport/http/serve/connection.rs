//! Connections: their sockets, timeouts for clients that send no request or stop reading, and a limit on their number.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::rt::{Sleep, Timer};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    sync::Semaphore,
};

use crate::{
    counters::{Counter, Warnings},
    error::Fault,
    stdx::Mutex,
    transport::http::{
        endpoint::Reader,
        options::ListenerOptions,
        peers::{Peer, PeerPermit, Pool, Resource, Share},
        response,
    },
};

/// The maximum number of connections being rejected with a response at a time. Further connections are closed without a response.
const MAX_REJECTIONS: usize = 256;
/// The maximum time spent on responding to a rejected connection and discarding its input.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes of a rejected connection that are read and discarded.
const LINGER_BYTES: u64 = 256 << 10;
/// The maximum number of TLS handshakes in progress. Each occupies at most about 80 KiB.
const MAX_HANDSHAKES: usize = 1024;

/// A connection over TCP or a Unix socket: a trait object, so that the program contains hyper's code only once.
pub(super) type Stream = Box<dyn Io>;

/// A socket that a listener accepts.
pub(super) trait Io: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Sync + Unpin {
    /// Returns the TCP socket, which can look at its input without removing it.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }
}

impl Io for TcpStream {
    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

#[cfg(unix)]
impl Io for UnixStream {}

/// A connection that fails when its client reads too slowly: if output is pending for the whole write timeout, and less
/// of it was accepted in that time than the minimum rate demands.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    write_timeout: Duration,
    /// The number of bytes that the client must accept within the write timeout.
    min_bytes: usize,
    /// Set while output is pending.
    window: Option<Window>,
    /// The client, which is known to read whenever it makes room for pending output.
    reader: Arc<Reader>,
}

/// A period over which the rate of a client is averaged.
#[derive(Debug)]
struct Window {
    end: Pin<Box<tokio::time::Sleep>>,
    written: usize,
}

/// Returns the number of bytes that a client must accept within the write timeout.
pub(super) fn min_bytes(write_timeout: Duration, min_rate: usize) -> usize {
    let millis = usize::try_from(write_timeout.as_millis()).unwrap_or(usize::MAX);
    (min_rate.saturating_mul(millis) / 1000).max(1)
}

impl Socket {
    /// Wraps a connection whose client must read `min_rate` bytes per second.
    pub(super) fn new(stream: Stream, write_timeout: Duration, min_rate: usize, reader: Arc<Reader>) -> Self {
        Self { stream, write_timeout, min_bytes: min_bytes(write_timeout, min_rate), window: None, reader }
    }

    /// Turns a pending write into an error if the client reads too slowly.
    fn limit_write(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            if let (Some(window), Ok(bytes)) = (&mut self.window, &written) {
                window.written = window.written.saturating_add(*bytes);
                self.reader.record_read();
            }
            return Poll::Ready(written);
        }
        let timeout = self.write_timeout;
        let new = || Window { end: Box::pin(tokio::time::sleep(timeout)), written: 0 };
        let window = self.window.get_or_insert_with(new);
        while window.end.as_mut().poll(cx).is_ready() {
            if window.written < self.min_bytes {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")));
            }
            *window = new();
        }
        Poll::Pending
    }

    /// Waits for input, and returns its first byte without removing it. Returns `None` at the end of the input, and for
    /// sockets that cannot do that.
    pub(super) async fn peek(&self) -> io::Result<Option<u8>> {
        let Some(stream) = self.stream.tcp() else { return Ok(None) };
        let mut first = [0];
        Ok((stream.peek(&mut first).await? > 0).then_some(first[0]))
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
        // Hyper flushes when all output is written.
        self.window = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The timer of one connection. Hyper creates a sleep for every request and drops it when the request has arrived.
///
/// All these sleeps share one timer of the runtime, so that it is not registered and deregistered for each request. The
/// shared timer keeps the deadline of an earlier sleep, and is reset to the deadline of the current sleep when it
/// expires.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedTimer(Arc<Mutex<Option<SharedSleep>>>);

type SharedSleep = Pin<Box<tokio::time::Sleep>>;

#[derive(Debug)]
struct RequestSleep {
    deadline: tokio::time::Instant,
    timer: SharedTimer,
}

impl Timer for SharedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(RequestSleep { deadline: deadline.into(), timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for RequestSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.timer.0.lock();
        let sleep = shared.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.deadline)));
        if sleep.deadline() > self.deadline {
            sleep.as_mut().reset(self.deadline);
        }
        loop {
            match sleep.as_mut().poll(cx) {
                Poll::Ready(()) if sleep.deadline() < self.deadline => sleep.as_mut().reset(self.deadline),
                polled => return polled,
            }
        }
    }
}

impl Sleep for RequestSleep {}

/// The limit on the number of connections.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    /// One permit for each connection.
    pub(super) pool: Arc<Pool>,
    handshakes: Pool,
    rejections: Arc<Semaphore>,
    /// The response to a rejected connection. It is empty if connections are encrypted.
    rejection: Bytes,
    warnings: Warnings,
}

impl ConnectionLimit {
    pub(super) fn new(options: &ListenerOptions, max_peer_share: Share, is_tls: bool) -> Self {
        let pool = Pool::new(Resource::Connections, options.max_connections, max_peer_share);
        let rejection = || response("503 Service Unavailable", &Fault::overloaded("too many connections"));
        Self {
            pool: Arc::new(pool),
            handshakes: Pool::new(Resource::Handshakes, MAX_HANDSHAKES, max_peer_share),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
            rejection: if is_tls { Bytes::new() } else { rejection().into() },
            warnings: Warnings::new(),
        }
    }

    /// Returns the connection with its permit, or rejects it and returns `None` if there are too many, over all peers
    /// or of this peer.
    ///
    /// A rejected connection receives a 503 response: its client learns the reason, and a proxy can try another server.
    /// If it were left unaccepted instead, the server would appear to hang.
    pub(super) fn admit(&self, stream: Stream, peer: &Arc<Peer>) -> Option<(Stream, PeerPermit)> {
        if let Some(permit) = self.pool.try_acquire(peer, 1) {
            return Some((stream, permit));
        }
        self.count_refusal();
        self.reject(stream);
        None
    }

    /// Returns the permit for the handshake of a connection that was admitted. Returns `None` if too many are in progress,
    /// over all peers or of this peer.
    pub(super) fn admit_handshake(&self, peer: &Arc<Peer>) -> Option<PeerPermit> {
        let permit = self.handshakes.try_acquire(peer, 1);
        if permit.is_none() {
            self.count_refusal();
        }
        permit
    }

    fn reject(&self, mut stream: Stream) {
        let Ok(permit) = Arc::clone(&self.rejections).try_acquire_owned() else { return };
        let rejection = self.rejection.clone();
        tokio::spawn(async move {
            let _ = respond(&mut stream, &rejection).await;
            drop(permit);
        });
    }

    fn count_refusal(&self) {
        Counter::RefusedConnections.count();
        if self.warnings.is_due() {
            tracing::warn!("too many connections: rejecting new ones");
        }
    }
}

/// Writes the only response of a connection. The connection should be closed afterwards.
pub(super) async fn respond(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), response: &[u8]) -> io::Result<()> {
    let write = async {
        stream.write_all(response).await?;
        stream.shutdown().await?;
        // Closing a socket with unread data resets the connection, which can discard the response.
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
    };
    tokio::time::timeout(LINGER, write).await.unwrap_or(Ok(()))
}

/// Encodes the only response of a connection.
pub(super) fn response(status: &str, fault: &Fault) -> Vec<u8> {
    let mut body = response::error_message(fault);
    let retry_after = if matches!(fault, Fault::Overloaded(_)) { "retry-after: 1\r\n" } else { "" };
    let mut response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry_after}\
         connection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.append(&mut body);
    response
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(120);

    /// Writes messages through a socket to a client that reads `bytes` in each `period`, with a paused clock. It must read
    /// `min_rate` bytes per second.
    async fn write(
        messages: &[usize],
        pause: Duration,
        (bytes, period): (usize, Duration),
        min_rate: usize,
    ) -> io::Result<()> {
        let (server, mut client) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while client.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(period).await;
            }
        });
        let mut socket = Socket::new(Box::new(server), TIMEOUT, min_rate, Arc::default());
        for message in messages {
            socket.write_all(&vec![b'x'; *message]).await?;
            socket.flush().await?;
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// A socket that is closed with unread input resets the connection, and the client may lose the response.
    #[tokio::test(start_paused = true)]
    async fn the_only_response_is_followed_by_reading_what_the_client_still_sends() {
        let (mut server, mut client) = tokio::io::duplex(64);
        let respond = async move { respond(&mut server, b"response").await };
        let exchange = async {
            client.write_all(&[b'x'; 1000]).await.unwrap();
            let mut received = String::new();
            client.read_to_string(&mut received).await.unwrap();
            client.write_all(&[b'x'; 1000]).await.unwrap();
            drop(client);
            received
        };
        let (responded, received) = tokio::join!(respond, exchange);
        assert!(responded.is_ok());
        assert_eq!(received, "response");
    }

    #[test]
    fn clients_must_read_at_a_minimum_rate() {
        let seconds = Duration::from_secs;
        for (messages, pause, bytes, period, min_rate, completes) in [
            // One byte every 30 seconds, and nothing at all.
            (&[1 << 20][..], 0, 1, seconds(30), 1024, false),
            (&[1 << 20], 0, 1, seconds(1_000_000), 1024, false),
            // Just below and above the minimum.
            (&[1 << 20], 0, 1000, seconds(1), 1024, false),
            (&[1 << 20], 0, 1040, seconds(1), 1024, true),
            // Little output, which waits for nothing.
            (&[100; 100], 100, 1024, seconds(100), 1024, true),
            // Output that waits, once more after all of it was read.
            (&[4096, 4096], 200, 1040, seconds(1), 1024, true),
            // Without a minimum, any progress suffices.
            (&[4096], 0, 1, seconds(100), 0, true),
            (&[4096], 0, 1, seconds(1_000_000), 0, false),
        ] {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build().unwrap();
            let written = runtime.block_on(write(messages, seconds(pause), (bytes, period), min_rate));
            let expected = if completes { Ok(()) } else { Err(io::ErrorKind::TimedOut) };
            assert_eq!(written.map_err(|error| error.kind()), expected, "{messages:?} {bytes} {period:?} {min_rate}");
        }
    }

    /// The client learns at once that no more follows.
    #[tokio::test(start_paused = true)]
    async fn a_rejected_connection_ends_after_its_response() {
        let (mut server, mut client) = tokio::io::duplex(1024);
        let responding = tokio::spawn(async move { respond(&mut server, b"refused").await });
        let (mut received, began) = (Vec::new(), tokio::time::Instant::now());
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!((&*received, began.elapsed()), (&b"refused"[..], Duration::ZERO));
        drop(client);
        responding.await.unwrap().unwrap();
    }

    impl Io for tokio::io::DuplexStream {}

    #[tokio::test(start_paused = true)]
    async fn the_number_of_connections_being_rejected_is_limited() {
        let limit = ConnectionLimit::new(&ListenerOptions::default(), Share::new(1.0), false);
        let clients: Vec<_> = (0..=MAX_REJECTIONS)
            .map(|_| {
                let (server, client) = tokio::io::duplex(1024);
                limit.reject(Box::new(server));
                client
            })
            .collect();
        for (number, mut client) in clients.into_iter().enumerate() {
            let mut received = String::new();
            client.read_to_string(&mut received).await.unwrap();
            assert_eq!(received.starts_with("HTTP/1.1 503 "), number < MAX_REJECTIONS, "{number}: {received}");
        }
    }

    /// Neither a client that keeps its connection open nor one that always sends more is read from for long.
    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_rejected_connection_is_limited() {
        let ((mut server, _client), began) = (tokio::io::duplex(1024), tokio::time::Instant::now());
        respond(&mut server, b"refused").await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

        let (mut server, mut client) = tokio::io::duplex(1024);
        tokio::spawn(async move { respond(&mut server, b"refused").await });
        let mut sent = 0;
        while sent < 1 << 20 && client.write_all(&[b'x'; 1024]).await.is_ok() {
            sent += 1024;
        }
        assert!(sent < 1 << 20, "{sent}");
    }

    /// Runs with a paused clock, which advances when every task waits.
    fn with_paused_clock(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
    }

    fn elapsed(since: tokio::time::Instant) -> u128 {
        since.elapsed().as_millis()
    }

    #[test]
    fn each_sleep_ends_at_its_deadline() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let start = tokio::time::Instant::now();
            let sleep = |millis| timer.sleep(Duration::from_millis(millis));
            // A sleep that is dropped before its deadline, as when a request arrives.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(1000)).await.is_err());
            assert_eq!(elapsed(start), 10);
            // A longer sleep while the shared timer is set to 1,000 ms, then a shorter sleep.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(2000)).await.is_err());
            sleep(100).await;
            assert_eq!(elapsed(start), 120);
            sleep(3000).await;
            assert_eq!(elapsed(start), 3120);
            // A sleep that expires before it is first polled.
            let late = sleep(5);
            tokio::time::sleep(Duration::from_millis(50)).await;
            late.await;
            assert_eq!(elapsed(start), 3170);
        });
    }

    #[test]
    fn a_sleep_outlasts_the_deadline_of_an_earlier_one() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let start = tokio::time::Instant::now();
            let mut first = timer.sleep(Duration::from_millis(100));
            assert!(tokio::time::timeout(Duration::from_millis(60), first.as_mut()).await.is_err());
            drop(first);
            let second = pin!(timer.sleep(Duration::from_millis(100)));
            second.await;
            assert_eq!(elapsed(start), 160);
        });
    }
}
