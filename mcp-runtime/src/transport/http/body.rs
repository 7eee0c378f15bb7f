use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::sse::body::SseBody;

/// The body of a response: a complete message, or a stream of server-sent events.
#[derive(Debug)]
pub struct HttpBody(Kind);

#[derive(Debug)]
enum Kind {
    Complete(Option<Bytes>),
    Events(Box<SseBody>),
}

impl HttpBody {
    pub(crate) fn complete(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Complete(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty())))
    }

    pub(super) fn events(events: SseBody) -> Self {
        Self(Kind::Events(Box::new(events)))
    }
}

/// An empty body, which the CORS layer requires for preflight responses.
impl Default for HttpBody {
    fn default() -> Self {
        Self(Kind::Complete(None))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Kind::Complete(bytes) => Poll::Ready(bytes.take()),
            Kind::Events(events) => events.poll_next(cx),
        };
        data.map(|data| data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Complete(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Complete(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}
