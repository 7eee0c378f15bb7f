//! Reading server-sent events.

use std::{
    error::Error as StdError,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::body::HttpBody;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::{BodyStream, StreamBody};
use sse_stream::{Error, Sse, SseStream};

/// The maximum size of an event in bytes. A stream with a larger one ends with an error.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Reads the events of a response body.
pub(crate) struct EventReader {
    events: Pin<Box<dyn Stream<Item = Result<Sse, Error>> + Send>>,
    /// The number of bytes received since the last event.
    buffered: Arc<AtomicUsize>,
}

impl EventReader {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: StdError + Send + Sync + 'static,
    {
        let buffered = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&buffered);
        let frames = BodyStream::new(body).map(move |frame| {
            let frame = frame.map_err(io::Error::other)?;
            let length = frame.data_ref().map_or(0, Bytes::len);
            if counter.fetch_add(length, Ordering::Relaxed) + length > MAX_EVENT_BYTES {
                return Err(io::Error::other("an event of the stream is too large"));
            }
            Ok(frame)
        });
        Self { events: Box::pin(SseStream::new(StreamBody::new(frames))), buffered }
    }

    /// Returns the next event, or `None` at the end of the stream. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<Sse, Error>> {
        let event = self.events.next().await;
        self.buffered.store(0, Ordering::Relaxed);
        event
    }
}
