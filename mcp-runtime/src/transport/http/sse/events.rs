//! The events of a stream, for the response that carries it, wherever the stream is logged.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;

use super::stream::EventStream;
use crate::stdx::debug;

/// The id of the stream for messages that belong to no request.
pub(crate) const GENERAL: u64 = 0;

/// An item that a response receives from a stream.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// The stream exists, so the client can resume it.
    Opened { stream: u64 },
    /// A message with the number of its event.
    Event { position: u64, line: Bytes },
    /// A message that no log contains. The client cannot resume the stream after this message.
    Message { line: Bytes },
    /// The request of a function to close the response. The client should reconnect after a delay.
    Close { position: u64, retry: Duration },
    /// The stream is complete.
    End,
}

impl StreamItem {
    /// Returns the length of the message.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Event { line, .. } | Self::Message { line } => line.len(),
            _ => 0,
        }
    }
}

/// The events of a stream.
pub(crate) type StreamEvents = Box<dyn EventSource>;

/// The events of a stream, which is logged in the memory of this process, or in the backend.
pub(crate) trait EventSource: fmt::Debug + Send {
    /// Returns the id of the stream, or `None` if the stream is yet to be opened.
    fn stream(&self) -> Option<u64>;

    /// Returns the number of the event after which the response starts.
    fn start(&self) -> u64;

    /// Returns the next item, or `None` if the response ends before the stream, for example because another response
    /// carries the stream. `is_resumable` is whether the client could resume the stream.
    fn poll_next(&mut self, is_resumable: bool, cx: &mut Context<'_>) -> Poll<Option<StreamItem>>;
}

/// The events of a stream of this process, which is not evicted in the meantime.
#[derive(Debug)]
pub(crate) struct LocalEvents {
    pub(crate) stream: Arc<EventStream>,
    /// The number of the last event.
    at: u64,
    /// The number of this response among the responses that have carried the stream.
    response: u64,
    /// The wait for the end of the response that has replaced this one.
    replaced: Option<Wait>,
}

/// The result of a request to open or resume a stream.
#[derive(Debug)]
pub(crate) enum Resumption {
    Events(StreamEvents),
    /// The client has received everything.
    Complete,
    /// The event does not exist, or its stream has been removed.
    Unknown,
}

impl LocalEvents {
    /// Carries a stream of this process after event `at`. Any other response that carries the stream ends.
    pub(crate) fn new(stream: &Arc<EventStream>, at: u64) -> Self {
        Self { stream: Arc::clone(stream), at, response: stream.carry(at), replaced: None }
    }
}

impl EventSource for LocalEvents {
    fn stream(&self) -> Option<u64> {
        Some(self.stream.id)
    }

    fn start(&self) -> u64 {
        self.at
    }

    fn poll_next(&mut self, is_resumable: bool, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let stream = &self.stream;
        while stream.is_carried_by(self.response) {
            // Read before the log is filled: any later output wakes this task.
            let is_over = stream.is_over();
            if let Some((position, line)) = stream.after(self.at) {
                self.at = position;
                return Poll::Ready(Some(StreamItem::Event { position, line }));
            }
            if is_over {
                return Poll::Ready(Some(StreamItem::End));
            }
            // Without event ids, the client could not resume the stream.
            if let Some(retry) = stream.take_close_request().filter(|_| is_resumable) {
                return Poll::Ready(Some(StreamItem::Close { position: self.at, retry }));
            }
            ready!(stream.poll_output(self.response, self.at, cx));
        }
        let replaced = self.replaced.get_or_insert_with(|| Wait::new(stream.replaced()));
        replaced.poll(cx).map(|()| None)
    }
}

impl Drop for LocalEvents {
    fn drop(&mut self) {
        self.stream.release(self.response);
    }
}

/// A future that a response polls until it is ready.
pub(crate) struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Wait {
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

debug!(Wait, self);
