//! HTTP/2: the limits of a connection that carries many requests at once.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use super::connection::{SharedTimer, min_bytes};
use crate::{
    counters::Counter,
    stdx::race,
    transport::http::{
        endpoint::Reader,
        options::{ListenerOptions, MAX_HEADERS},
        peers::PeerPermit,
        response::{self, HttpBody, HttpResponse},
    },
};

/// The maximum number of requests that a connection carries at once. Each of them counts as a connection, too.
const MAX_STREAMS: u32 = 200;
/// The maximum number of bytes of request bodies that a connection sends before the server reads them.
const WINDOW_BYTES: u32 = 128 << 10;
/// The maximum number of bytes of a response that wait for the connection, apart from a longer message.
const MAX_SEND_BYTES: usize = 16 << 10;
/// The time between two pings, which detect that the other end is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The time after which a connection is closed if a ping is not answered.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection until it ends. After the shutdown of the listener, and after the connection was idle for the
/// timeout of request heads, the client is told to send no more requests, and the connection ends with the last response.
///
/// Requests for which `admit` returns no permit are rejected. `respond` also returns the client as the reader of the
/// response.
pub(super) async fn serve<S, F>(
    socket: S,
    options: &ListenerOptions,
    admit: impl Fn() -> Option<PeerPermit>,
    respond: impl Fn(Request<Incoming>) -> (Arc<Reader>, F),
    mut stop: watch::Receiver<()>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<HttpResponse, Infallible>> + Send + 'static,
{
    let (activity, open) = (Arc::new(Activity::default()), stop.clone());
    let service = service_fn(|request: Request<Incoming>| {
        let permit = admit();
        let (reader, response) = if permit.is_none() {
            Counter::RefusedConnections.count();
            (Arc::default(), Err(response::overloaded("too many connections")))
        } else if request.headers().len() > MAX_HEADERS {
            let why = format!("the request has more than {MAX_HEADERS} headers");
            (Arc::default(), Err(response::invalid_request(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &why)))
        } else {
            let (reader, response) = respond(request);
            (reader, Ok(response))
        };
        let exchange = Arc::new(Exchange::new(&activity, reader, permit, open.clone()));
        async move {
            let response = match response {
                Ok(response) => response.await?,
                Err(rejection) => rejection,
            };
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, exchange }))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(SharedTimer::default())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(options.max_head_bytes).unwrap_or(u32::MAX))
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_send_buf_size(MAX_SEND_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let serve = async {
        let end = race(activity.is_idle_for(options.header_timeout), stop.changed());
        if let Err(ended) = race(end, connection.as_mut()).await {
            return ended;
        }
        connection.as_mut().graceful_shutdown();
        race(activity.is_idle_for(options.header_timeout), connection).await.err().unwrap_or(Ok(()))
    };
    let min_bytes = min_bytes(options.write_timeout, options.min_read_rate);
    let stalled = race(activity.is_stalled_for(options.write_timeout, min_bytes), serve).await;
    stalled.err().unwrap_or(Ok(()))
}

/// The requests of a connection, and the output that the client has not made room for. The socket alone does not tell
/// whether a client reads, since the client grants room for each response.
#[derive(Debug, Default)]
struct Activity {
    /// The number of requests whose responses are not written yet.
    open: AtomicUsize,
    /// The number of times that a request was received or a response was written.
    changes: AtomicUsize,
    /// The number of bytes that wait for the client.
    unsent: AtomicUsize,
    /// The number of bytes that the client has accepted.
    sent: AtomicUsize,
    /// Whether no output has waited at some time in the current period.
    was_drained: AtomicBool,
}

impl Activity {
    /// Completes when there was no request for the time of `timeout`, at the latest after twice the time.
    async fn is_idle_for(&self, timeout: Duration) {
        loop {
            let before = self.changes.load(Ordering::Relaxed);
            tokio::time::sleep(timeout).await;
            if self.open.load(Ordering::Relaxed) == 0 && self.changes.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Completes when output has waited for a whole period in which the client has accepted less than `min_bytes`.
    async fn is_stalled_for(&self, period: Duration, min_bytes: usize) {
        loop {
            let before = self.sent.load(Ordering::Relaxed);
            self.was_drained.store(self.unsent.load(Ordering::Relaxed) == 0, Ordering::Relaxed);
            tokio::time::sleep(period).await;
            let sent = self.sent.load(Ordering::Relaxed).wrapping_sub(before);
            if sent < min_bytes && !self.was_drained.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Counts output that does not wait any more.
    fn remove(&self, bytes: usize) {
        if self.unsent.fetch_sub(bytes, Ordering::Relaxed) == bytes {
            self.was_drained.store(true, Ordering::Relaxed);
        }
    }
}

/// A request whose response is not written yet.
#[derive(Debug)]
struct Exchange {
    activity: Arc<Activity>,
    /// The client, which is known to read whenever it makes room for more of a message.
    reader: Arc<Reader>,
    _permit: Option<PeerPermit>,
    /// The shutdown of the listener waits until it is dropped.
    _stop: watch::Receiver<()>,
}

impl Exchange {
    fn new(
        activity: &Arc<Activity>,
        reader: Arc<Reader>,
        permit: Option<PeerPermit>,
        stop: watch::Receiver<()>,
    ) -> Self {
        activity.open.fetch_add(1, Ordering::Relaxed);
        activity.changes.fetch_add(1, Ordering::Relaxed);
        Self { activity: Arc::clone(activity), reader, _permit: permit, _stop: stop }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.activity.changes.fetch_add(1, Ordering::Relaxed);
        self.activity.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response, whose data is counted until it is written.
struct TrackedBody {
    body: HttpBody,
    exchange: Arc<Exchange>,
}

impl Body for TrackedBody {
    type Data = Unsent;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Unsent>, Infallible>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|bytes| Unsent::new(bytes, &self.exchange)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of a response that waits for the client.
struct Unsent {
    bytes: Bytes,
    /// Whether only a part of the message has been sent so far.
    is_partly_sent: bool,
    exchange: Arc<Exchange>,
}

impl Unsent {
    fn new(bytes: Bytes, exchange: &Arc<Exchange>) -> Self {
        exchange.activity.unsent.fetch_add(bytes.len(), Ordering::Relaxed);
        Self { bytes, is_partly_sent: false, exchange: Arc::clone(exchange) }
    }
}

impl Buf for Unsent {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        let activity = &self.exchange.activity;
        activity.sent.fetch_add(count, Ordering::Relaxed);
        activity.remove(count);
        // The buffers take a short message, such as one that keeps a stream alive, even if the client has gone.
        if std::mem::replace(&mut self.is_partly_sent, true) {
            self.exchange.reader.record_read();
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.exchange.activity.remove(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_accepts_the_minimum_is_not_stalled() {
        let period = Duration::from_secs(2);
        for (bytes, is_stalled) in [(99, true), (100, false)] {
            let activity = Activity::default();
            activity.unsent.store(1000, Ordering::Relaxed);
            let reads = async {
                tokio::time::sleep(period / 2).await;
                activity.sent.fetch_add(bytes, Ordering::Relaxed);
            };
            let stalls = tokio::time::timeout(period * 3 / 2, activity.is_stalled_for(period, 100));
            assert_eq!(tokio::join!(stalls, reads).0.is_ok(), is_stalled, "{bytes}");
        }
    }

    /// A request that begins or ends in between counts, even if none is open at the end.
    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_after_a_whole_period_without_requests() {
        let seconds = Duration::from_secs;
        for (begins, lasts, expected) in [(60, 1, 2), (1, 0, 4), (1, 2, 6)] {
            let (activity, began) = (Arc::<Activity>::default(), tokio::time::Instant::now());
            let request = async {
                tokio::time::sleep(seconds(begins)).await;
                let exchange = Exchange::new(&activity, Arc::default(), None, watch::channel(()).1);
                tokio::time::sleep(seconds(lasts)).await;
                drop(exchange);
            };
            let idle = async {
                activity.is_idle_for(seconds(2)).await;
                began.elapsed().as_secs()
            };
            assert_eq!(tokio::join!(idle, request).0, expected, "{begins} {lasts}");
        }
    }
}
