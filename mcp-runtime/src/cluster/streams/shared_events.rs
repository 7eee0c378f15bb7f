use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::open_responses::{OpenResponse, OpenResponses};
use crate::{
    race::race,
    transport::http::sse::events::{GENERAL, SharedEvents, StreamItem, Wait},
};

/// The events of a stream, for the response that carries it.
#[derive(Debug)]
pub(super) struct FollowedEvents {
    session: Arc<str>,
    /// The id of the stream. `None` until the stream is opened.
    stream: Option<u64>,
    /// The number of the event after which the response starts.
    start: u64,
    items: FeedReceiver,
    responses: Arc<OpenResponses>,
    /// The registration of the response, once the stream is opened.
    registration: Option<OpenResponse>,
    /// The wait for the end of the response that has replaced this one.
    replaced: Option<Wait>,
}

impl FollowedEvents {
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
}

impl SharedEvents for FollowedEvents {
    fn stream(&self) -> Option<u64> {
        self.stream
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
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

/// The maximum number of bytes that wait for the client of one response, unless it is a single event.
const MAX_UNREAD_BYTES: u32 = 1 << 20;

/// Per-event overhead, which bounds the number of events to 4,096.
const OVERHEAD: u32 = 256;

/// The items that a response has yet to send.
#[derive(Debug)]
pub(super) struct Feed {
    /// In boxes, since the channel allocates room for 32 items at once.
    items: mpsc::UnboundedSender<Box<Queued>>,
    /// The bytes that may be added.
    room: Arc<Semaphore>,
    /// The position of the last event that the response has taken.
    taken: Arc<AtomicU64>,
}

/// The other end of a [`Feed`], which a response holds.
#[derive(Debug)]
pub(super) struct FeedReceiver {
    items: mpsc::UnboundedReceiver<Box<Queued>>,
    taken: Arc<AtomicU64>,
}

/// An item, which takes up room until the response takes it.
#[derive(Debug)]
struct Queued {
    item: StreamItem,
    _room: OwnedSemaphorePermit,
}

/// The response is gone.
#[derive(Debug)]
pub(super) struct Closed;

impl Feed {
    /// Creates a feed for a response whose client has received the event with this position.
    pub(super) fn new(taken: u64) -> (Self, FeedReceiver) {
        let (items, receiver) = mpsc::unbounded_channel();
        let (room, taken) = (Arc::new(Semaphore::new(MAX_UNREAD_BYTES as usize)), Arc::new(AtomicU64::new(taken)));
        (Self { items, room, taken: Arc::clone(&taken) }, FeedReceiver { items: receiver, taken })
    }

    /// Returns the position of the last event that the response has taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Adds an item. Waits while the client reads too slowly.
    pub(super) async fn send(&self, item: StreamItem) -> Result<(), Closed> {
        let size = u32::try_from(item.len()).unwrap_or(u32::MAX).saturating_add(OVERHEAD).min(MAX_UNREAD_BYTES);
        let room = Arc::clone(&self.room).acquire_many_owned(size);
        let Ok(Ok(room)) = race(room, self.items.closed()).await else { return Err(Closed) };
        self.items.send(Box::new(Queued { item, _room: room })).map_err(|_| Closed)
    }

    /// Waits until the response is gone.
    pub(super) async fn closed(&self) {
        self.items.closed().await;
    }
}

impl FeedReceiver {
    /// Discards the items, and refuses further items.
    pub(super) fn close(&mut self) {
        self.items.close();
        while self.items.try_recv().is_ok() {}
    }

    /// Takes the next item. Returns `None` if there will not be any more.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let item = ready!(self.items.poll_recv(cx)).map(|queued| queued.item);
        if let Some(StreamItem::Event { position, .. }) = item {
            self.taken.store(position, Ordering::Release);
        }
        Poll::Ready(item)
    }
}
