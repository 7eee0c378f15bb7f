use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    feed::FeedReceiver,
    item::{GENERAL, StreamItem},
    open_responses::{OpenResponse, OpenResponses},
};
use crate::transport::http::sse::wait::Wait;

/// The events of a stream, for the response that carries it.
#[derive(Debug)]
pub(in crate::transport::http) struct SharedEvents {
    session: Arc<str>,
    /// The id of the stream, which is 0 until the stream is opened.
    stream: u64,
    items: FeedReceiver,
    responses: Arc<OpenResponses>,
    /// The registration of the response, once the stream is opened.
    registration: Option<OpenResponse>,
    /// The wait for the end of the response that has replaced this one.
    replaced: Option<Wait>,
}

/// The result of a request to resume a stream.
#[derive(Debug)]
pub(in crate::transport::http) enum Resumption {
    Events(SharedEvents),
    /// The client has received everything.
    Complete,
    /// The event does not exist, or its stream has been removed.
    Unknown,
}

impl SharedEvents {
    /// Creates the events of a stream that is about to be opened.
    pub(super) fn unopened(responses: &Arc<OpenResponses>, session: Arc<str>, items: FeedReceiver) -> Self {
        Self { session, stream: 0, items, responses: Arc::clone(responses), registration: None, replaced: None }
    }

    /// Creates the events of a stream that a response resumes.
    pub(super) fn resumed(
        responses: &Arc<OpenResponses>,
        session: &Arc<str>,
        stream: u64,
        items: FeedReceiver,
        registration: OpenResponse,
    ) -> Self {
        let session = Arc::clone(session);
        Self {
            session,
            stream,
            items,
            responses: Arc::clone(responses),
            registration: Some(registration),
            replaced: None,
        }
    }

    /// Returns the id of the stream.
    pub(in crate::transport::http) fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns whether the stream is open, so that its id is known.
    pub(in crate::transport::http) fn is_open(&self) -> bool {
        self.registration.is_some()
    }

    /// Returns the next item, or `None` if the response ends before the stream, for example because another response
    /// carries the stream.
    pub(in crate::transport::http) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        if self.replaced.is_none()
            && self.registration.as_mut().is_some_and(|registration| registration.poll_ended(cx).is_ready())
        {
            if self.stream != GENERAL {
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
            self.stream = stream;
            self.registration = Some(self.responses.begin(&self.session, stream));
        }
        Poll::Ready(item)
    }
}
