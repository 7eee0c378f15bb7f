//! Reading request bodies, whose size, duration and total memory are limited.

use std::{
    error::Error,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError};
use tokio::{sync::watch, time::Sleep};

use super::{
    endpoint::Endpoint,
    limits::{ReusedBuffer, SharedLimits},
    peers::{Peer, PeerPermit},
    request::HttpRequestSource,
    response::{self, Rejection},
};
use crate::{counters::Counter, error::Fault};

/// The number of bytes at the start of a body that do not count towards the memory of all bodies, so that responses and
/// cancellations are accepted even when it is exhausted. Each connection buffers more than this anyway.
const UNCOUNTED_BYTES: usize = 4 << 10;

/// The maximum factor by which the capacity of a body exceeds its length while it is being received.
const MAX_GROWTH: usize = 4;

/// The maximum time for which the rest of a rejected request's body is read and discarded.
const LINGER: Duration = Duration::from_secs(5);

/// The body of a request, as all services take it.
pub(super) trait RequestBody:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static
{
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static> RequestBody for B {}

/// The body of a request, as far as it has been received.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    /// The first chunk, which is not copied if it is the only one.
    first: Bytes,
    /// The whole body, if there is more than one chunk.
    joined: Option<ReusedBuffer>,
    /// The memory that is reserved for the body, if it is long.
    pub(super) memory: Option<PeerPermit>,
    /// The time at which the body was complete.
    pub(super) received_at: Instant,
    _receiving: watch::Receiver<()>,
}

/// Reads the body of a request that arrived at `now`, up to `max_bytes` and the limit of the options.
///
/// Until the result is dropped, the message counts as being received and its memory is reserved.
///
/// # Errors
///
/// Returns the response that rejects the request if the body is too long, too slow or incomplete, or if the memory of
/// all bodies is exhausted.
pub(super) async fn read<B: RequestBody>(
    endpoint: &Endpoint,
    source: &HttpRequestSource,
    body: B,
    max_bytes: usize,
    now: Instant,
) -> Result<ReceivedBody, Rejection> {
    let (options, limits) = (endpoint.options(), endpoint.limits());
    let max_bytes = max_bytes.min(options.max_body_bytes);
    let mut reader = BodyReader {
        body: Box::pin(body),
        received: ReceivedBody::new(now, endpoint.start_receiving()),
        expected: 0,
        max_bytes,
        timeout: options.body_timeout,
        deadline: None,
        has_failed: false,
        limits,
        peer: source.peer(),
    };
    let result = match usize::try_from(reader.body.size_hint().lower()) {
        Ok(expected) if expected <= max_bytes => {
            reader.expected = expected;
            poll_fn(|cx| reader.poll(cx)).await
        }
        _ => Err(too_long(max_bytes)),
    };
    let BodyReader { body, received, has_failed, .. } = reader;
    result.map(|()| received).map_err(|mut rejection| {
        let is_refused = matches!(rejection.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE);
        if is_refused && !has_failed {
            linger(source.request(), body, max_bytes);
        }
        // The body was not received completely.
        response::set(&mut rejection, header::CONNECTION, "close");
        rejection
    })
}

/// A body that is being read.
struct BodyReader<'a, B> {
    body: Pin<Box<B>>,
    received: ReceivedBody,
    /// The length that the client has announced, or 0.
    expected: usize,
    max_bytes: usize,
    timeout: Duration,
    /// The end of the timeout, set only when the reader has to wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether reading has failed, so that nothing more can be read.
    has_failed: bool,
    limits: &'a SharedLimits,
    peer: &'a Arc<Peer>,
}

impl<B: RequestBody> BodyReader<'_, B> {
    /// Completes when the whole body has been received.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Rejection>> {
        loop {
            match self.body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.received.bytes().len() + data.len() > self.max_bytes {
                        return Poll::Ready(Err(too_long(self.max_bytes)));
                    }
                    self.received.push(data, self.expected, self.limits, self.peer)?;
                }
                Poll::Ready(Some(Err(error))) => {
                    self.has_failed = true;
                    return Poll::Ready(Err(incomplete(&*error.into())));
                }
                Poll::Ready(None) => {
                    if self.deadline.is_some() {
                        self.received.received_at = Instant::now();
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    let timeout = self.timeout;
                    let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                    let too_slow = |()| Err(reject(StatusCode::REQUEST_TIMEOUT, "timed out waiting for the body"));
                    return deadline.as_mut().poll(cx).map(too_slow);
                }
            }
        }
    }
}

impl ReceivedBody {
    fn new(now: Instant, receiving: watch::Receiver<()>) -> Self {
        Self { first: Bytes::new(), joined: None, memory: None, received_at: now, _receiving: receiving }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.joined.as_ref().map_or(&*self.first, |joined| &joined.buffer)
    }

    /// Adds a chunk of a body of at least `expected` bytes, and reserves memory for it.
    fn push(&mut self, data: Bytes, expected: usize, limits: &SharedLimits, peer: &Arc<Peer>) -> Result<(), Rejection> {
        let before = self.bytes().len();
        let more = (before + data.len()).saturating_sub(before.max(UNCOUNTED_BYTES));
        if more > 0 && !limits.reserve_body_memory(peer, &mut self.memory, more) {
            Counter::RefusedMemory.count();
            return Err(Box::new(response::overloaded("too much request data is being received")));
        }
        if before == 0 {
            self.first = data;
            return Ok(());
        }
        let first = std::mem::take(&mut self.first);
        let joined = self.joined.get_or_insert_with(|| {
            let mut buffer = limits.buffers.take().unwrap_or_default();
            buffer.extend_from_slice(&first);
            ReusedBuffer::new(buffer, &limits.buffers)
        });
        let joined = &mut joined.buffer;
        let length = before + data.len();
        if length > joined.capacity() && length <= expected {
            // A client must send a part of the size that is allocated for it. The margin equals the margin of a
            // response of the same size, so that both can reuse the buffer.
            joined.reserve_exact((expected + expected / 16).min(MAX_GROWTH * length) - before);
        }
        joined.extend_from_slice(&data);
        Ok(())
    }
}

fn too_long(max_bytes: usize) -> Rejection {
    reject(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body exceeds the limit of {max_bytes} bytes"))
}

/// Rejects a body that is malformed, whose connection has failed, or that exceeds the limit of a layer around this
/// service.
fn incomplete(error: &(dyn Error + 'static)) -> Rejection {
    // The error of a layer, which frameworks wrap.
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    if causes.any(|error| error.is::<LengthLimitError>()) {
        return reject(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    }
    Box::new(response::error(StatusCode::BAD_REQUEST, &Fault::Parse(format!("incomplete body: {error}"))))
}

fn reject(status: StatusCode, why: &str) -> Rejection {
    Box::new(response::invalid_request(status, why))
}

/// Reads the rest of a rejected request for a while, since most clients read the response only after they have written
/// everything. A body longer than `max_bytes` is not read to its end: hyper closes the connection instead.
pub(super) fn linger<B: RequestBody>(request: &Parts, mut body: Pin<Box<B>>, max_bytes: usize) {
    // A client that sent `Expect: 100-continue` has not sent the body yet.
    if !body.is_end_stream() && !request.headers.contains_key(header::EXPECT) {
        let read = async move {
            let mut rest = max_bytes;
            while let Some(Ok(frame)) = body.frame().await {
                let length = frame.data_ref().map_or(0, Bytes::len);
                let Some(less) = rest.checked_sub(length) else { break };
                rest = less;
            }
        };
        tokio::spawn(tokio::time::timeout(LINGER, read));
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::{Full, Limited};

    use super::*;
    use crate::transport::http::{options::HttpOptions, peers::Remote, session::LocalSessions};

    /// Returns limits with memory for four bodies of 10,000 bytes.
    fn limits() -> SharedLimits {
        let options = HttpOptions::default().max_body_bytes(10_000).max_total_body_bytes(0).max_peer_share(1.0);
        SharedLimits::for_test(&options, Arc::new(LocalSessions::new(&options)))
    }

    /// Reads a body that is available at once.
    fn read(body: impl RequestBody, limits: &SharedLimits) -> Result<ReceivedBody, Rejection> {
        let received = ReceivedBody::new(Instant::now(), limits.start_receiving(0));
        let mut reading = BodyReader {
            body: Box::pin(body),
            received,
            expected: 0,
            max_bytes: 10_000,
            timeout: Duration::MAX,
            deadline: None,
            has_failed: false,
            limits,
            peer: &limits.peers.remote(Remote::Unknown),
        };
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read.map(|()| reading.received),
            Poll::Pending => panic!("the body is pending"),
        }
    }

    #[test]
    fn a_single_chunk_is_not_copied() {
        let bytes = Bytes::from(vec![b'x'; 10_000]);
        let received = read(Full::new(bytes.clone()), &limits()).unwrap();
        assert_eq!(received.bytes().as_ptr(), bytes.as_ptr());
        assert_eq!(received.bytes(), bytes);
    }

    #[test]
    fn a_body_that_a_middleware_limits_is_too_long() {
        let body = || Full::new(Bytes::from_static(b"body"));
        assert!(read(Limited::new(body(), 4), &limits()).is_ok());
        for rejected in
            [read(Limited::new(body(), 3), &limits()), read(axum::body::Body::new(Limited::new(body(), 3)), &limits())]
        {
            assert_eq!(rejected.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        }
    }

    #[test]
    fn chunks_are_joined_and_counted() {
        let limits = limits();
        let peer = limits.peers.remote(Remote::Unknown);
        let mut received = ReceivedBody::new(Instant::now(), limits.start_receiving(0));
        let whole: Vec<u8> = (0..10_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        for (chunk, count) in whole.chunks(1000).zip(1..) {
            received.push(Bytes::copy_from_slice(chunk), 0, &limits, &peer).unwrap();
            let reserved = received.memory.as_ref().map_or(0, PeerPermit::amount);
            assert_eq!(reserved, (count * 1000_usize).saturating_sub(UNCOUNTED_BYTES));
        }
        assert_eq!(received.bytes(), whole);
    }

    #[test]
    fn the_memory_of_all_bodies_is_limited() {
        let limits = limits();
        let long = || Full::new(Bytes::from(vec![b'x'; 10_000]));
        let short = || Full::new(Bytes::from(vec![b'x'; UNCOUNTED_BYTES]));
        let mut received = Vec::new();
        let rejected = loop {
            match read(long(), &limits) {
                Ok(body) => received.push(body),
                Err(rejected) => break rejected,
            }
            assert!(received.len() < 100, "no body is rejected");
        };
        assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(rejected.headers()[header::RETRY_AFTER], "1");
        // Short bodies are still accepted, and a dropped body frees its memory.
        assert!(read(short(), &limits).is_ok());
        assert!(read(long(), &limits).is_err());
        received.pop();
        assert!(read(long(), &limits).is_ok());
    }
}
