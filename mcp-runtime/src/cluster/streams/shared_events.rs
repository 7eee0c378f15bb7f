use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    feed::FeedReceiver,
    open_responses::{OpenResponse, OpenResponses},
};
use crate::transport::http::sse::{
    events::{GENERAL, StreamItem},
    wait::Wait,
};

/// The events of a stream, for the response that carries it.
#[derive(Debug)]
pub(crate) struct SharedEvents {
    session: Arc<str>,
    /// The id of the stream. `None` until the stream is opened.
    stream: Option<u64>,
    /// The position of the event after which the response starts.
    start: u64,
    items: FeedReceiver,
    responses: Arc<OpenResponses>,
    /// The registration of the response, once the stream is opened.
    registration: Option<OpenResponse>,
    /// The wait for the end of the response that has replaced this one.
    replaced: Option<Wait>,
}

impl SharedEvents {
    /// Creates the events of a stream that is about to be opened.
    pub(super) fn unopened(responses: &Arc<OpenResponses>, session: Arc<str>, items: FeedReceiver) -> Self {
        let responses = Arc::clone(responses);
        Self { session, stream: None, start: 0, items, responses, registration: None, replaced: None }
    }

    /// Creates the events of a stream that a response resumes after the event with a position.
    pub(super) fn resumed(
        responses: &Arc<OpenResponses>,
        session: &Arc<str>,
        (stream, start): (u64, u64),
        items: FeedReceiver,
        registration: OpenResponse,
    ) -> Self {
        let (session, responses) = (Arc::clone(session), Arc::clone(responses));
        let (stream, registration) = (Some(stream), Some(registration));
        Self { session, stream, start, items, responses, registration, replaced: None }
    }

    /// Returns the id of the stream, or `None` if the stream is yet to be opened.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.stream
    }

    /// Returns the position of the event after which the response starts.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the next item, or `None` if the response ends before the stream, for example because another response
    /// carries the stream.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        if self.replaced.is_none()
            && self.registration.as_mut().is_some_and(|registration| registration.poll_ended(cx).is_ready())
        {
            if self.stream != Some(GENERAL) {
                return Poll::Ready(None);
            }
            self.items.close();
            self.replaced = Some(Wait::new(self.responses.replaced(&self.session)));
        }
        if let Some(replaced) = &mut self.replaced {
            return replaced.poll(cx).map(|()| None);
        }
        let item = ready!(self.items.poll_next(cx));
        if let Some(StreamItem::Opened { stream }) = item {
            self.stream = Some(stream);
            self.registration = Some(self.responses.begin(&self.session, stream));
        }
        Poll::Ready(item)
    }
}
