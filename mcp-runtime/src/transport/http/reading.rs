//! The bodies of requests, which may be neither too long nor too slow, nor too much all together.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::Sleep,
};

use super::{
    endpoint::Endpoint,
    response::{self, HttpResponse},
    work::Work,
};
use crate::error::Fault;

/// The first bytes of a body are no part of the memory for all of them, so that answers and cancellations get through when others
/// have used it up. A connection buffers more than that by itself.
const SHORT: usize = 4 << 10;

/// How long the body of a request that is refused is read, for nobody.
const LINGER: Duration = Duration::from_secs(5);

/// A body, as far as it is there.
#[derive(Debug)]
pub(super) struct Received {
    /// What came in one piece is not copied.
    first: Bytes,
    /// All of it, once there is more than one piece.
    joined: Vec<u8>,
    memory: Option<OwnedSemaphorePermit>,
    /// When all of it was there.
    pub(super) at: Instant,
    _receiving: watch::Receiver<()>,
}

/// Why a body was not read.
#[derive(Debug)]
enum Unread {
    TooLong,
    TooSlow,
    /// All bodies together take too much memory.
    TooMuch,
    BreaksOff(String),
}

impl Endpoint {
    /// Reads the body of a request that came at `now`. It counts as one in work, and takes memory, until what was read is dropped.
    pub(super) async fn read<B>(&self, request: &Parts, body: B, now: Instant) -> Result<Received, Box<HttpResponse>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let most = self.options().max_body_bytes;
        let mut reading = Reading {
            body: Box::pin(body),
            received: Received::new(now, self.work()),
            most,
            limit: self.options().body_timeout,
            deadline: None,
            work: self.work(),
        };
        let read = match reading.body.size_hint().lower() > most as u64 {
            true => Err(Unread::TooLong),
            false => poll_fn(|cx| reading.poll(cx)).await,
        };
        let Reading { body, received, .. } = reading;
        read.map(|()| received).map_err(|unread| {
            if matches!(unread, Unread::TooLong | Unread::TooMuch) {
                linger(request, body);
            }
            Box::new(closing(unread.response(most)))
        })
    }
}

/// A body on its way.
struct Reading<'a, B> {
    body: Pin<Box<B>>,
    received: Received,
    most: usize,
    /// How long it may take.
    limit: Duration,
    /// What is there at once needs no timer.
    deadline: Option<Pin<Box<Sleep>>>,
    work: &'a Work,
}

impl<B> Reading<'_, B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads on until all of it is there.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unread>> {
        loop {
            match self.body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.received.bytes().len() + data.len() > self.most {
                        return Poll::Ready(Err(Unread::TooLong));
                    }
                    self.received.push(data, self.work)?;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(Unread::because(&*error.into()))),
                Poll::Ready(None) => {
                    if self.deadline.is_some() {
                        self.received.at = Instant::now();
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    let limit = self.limit;
                    let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
                    return deadline.as_mut().poll(cx).map(|()| Err(Unread::TooSlow));
                }
            }
        }
    }
}

impl Received {
    fn new(now: Instant, work: &Work) -> Self {
        Self { first: Bytes::new(), joined: Vec::new(), memory: None, at: now, _receiving: work.receiving() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.joined.is_empty() { &self.first } else { &self.joined }
    }

    fn push(&mut self, data: Bytes, work: &Work) -> Result<(), Unread> {
        let before = self.bytes().len();
        let more = (before + data.len()).saturating_sub(before.max(SHORT));
        if more > 0 {
            let memory = work.body_memory(more).ok_or(Unread::TooMuch)?;
            match &mut self.memory {
                Some(taken) => taken.merge(memory),
                None => self.memory = Some(memory),
            }
        }
        if before == 0 {
            self.first = data;
        } else {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
            self.joined.extend_from_slice(&data);
        }
        Ok(())
    }
}

impl Unread {
    fn because(error: &(dyn std::error::Error + 'static)) -> Self {
        match error.is::<LengthLimitError>() {
            true => Self::TooLong,
            false => Self::BreaksOff(error.to_string()),
        }
    }

    fn response(&self, most: usize) -> HttpResponse {
        match self {
            Self::TooLong => {
                let why = format!("a body may have at most {most} bytes");
                response::refuse_because(StatusCode::PAYLOAD_TOO_LARGE, &why)
            }
            Self::TooSlow => response::refuse_because(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
            Self::TooMuch => response::busy("the bodies of all requests together are too long"),
            Self::BreaksOff(why) => {
                response::refuse(StatusCode::BAD_REQUEST, &Fault::Parse(format!("the body breaks off: {why}")))
            }
        }
    }
}

/// Reads on for a while after a refusal, since most clients read only when they have written everything.
pub(super) fn linger<B>(request: &Parts, mut body: Pin<Box<B>>)
where
    B: Body<Data = Bytes> + Send + 'static,
{
    // Whoever asks before it sends the body need not send it.
    if !body.is_end_stream() && !request.headers.contains_key(header::EXPECT) {
        tokio::spawn(tokio::time::timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
    }
}

/// Ends the connection after the response, since the rest of the request is not read.
fn closing(mut response: HttpResponse) -> HttpResponse {
    response::set(&mut response, header::CONNECTION, "close");
    response
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc, task::Waker};

    use http_body_util::Full;

    use super::*;
    use crate::transport::http::{HttpOptions, sessions::Sessions};

    /// Memory for four bodies of 10,000 bytes.
    fn work() -> Work {
        let options = HttpOptions::default().max_body_bytes(10_000).max_body_bytes_in_all(0);
        Work::new(&options, Arc::new(Sessions::new(1, Duration::ZERO)))
    }

    /// Reads a body that is there.
    fn read(body: impl Body<Data = Bytes, Error = Infallible>, work: &Work) -> Result<Received, Unread> {
        let received = Received::new(Instant::now(), work);
        let mut reading =
            Reading { body: Box::pin(body), received, most: 10_000, limit: Duration::MAX, deadline: None, work };
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read.map(|()| reading.received),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn one_piece_is_not_copied() {
        let bytes = Bytes::from(vec![b'x'; 10_000]);
        let received = read(Full::new(bytes.clone()), &work()).unwrap();
        assert_eq!(received.bytes().as_ptr(), bytes.as_ptr());
        assert_eq!(received.bytes(), bytes);
    }

    #[test]
    fn pieces_are_joined_and_counted() {
        let work = work();
        let mut received = Received::new(Instant::now(), &work);
        let whole: Vec<u8> = (0..10_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        for (piece, pieces) in whole.chunks(1000).zip(1..) {
            received.push(Bytes::copy_from_slice(piece), &work).unwrap();
            let taken = received.memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            assert_eq!(taken, (pieces * 1000_usize).saturating_sub(SHORT));
        }
        assert_eq!(received.bytes(), whole);
    }

    #[test]
    fn all_bodies_together_are_bounded() {
        let work = work();
        let long = || Full::new(Bytes::from(vec![b'x'; 10_000]));
        let short = || Full::new(Bytes::from(vec![b'x'; SHORT]));
        let mut received = Vec::new();
        let refused = loop {
            match read(long(), &work) {
                Ok(body) => received.push(body),
                Err(refused) => break refused,
            }
            assert!(received.len() < 100, "nothing is refused");
        };
        assert!(matches!(refused, Unread::TooMuch), "{refused:?}");
        let refused = refused.response(10_000);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        // What is short gets through, and what ended makes room.
        assert!(read(short(), &work).is_ok());
        assert!(read(long(), &work).is_err());
        received.pop();
        assert!(read(long(), &work).is_ok());
    }
}
