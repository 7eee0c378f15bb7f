use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout_at},
};

use super::{
    cursor::Cursor,
    log::{MAX_PAUSE, PAGE, StreamLog},
    open_responses::{OpenResponse, OpenResponses},
};
use crate::{
    backend::{Append, BackendError, Backoff, LogEntry},
    cluster::{Replica, Slot},
    race::race,
    revision::Dialect,
    transport::http::sse::{
        events::{GENERAL, StreamItem},
        stream::Wait,
    },
};

/// How often the lease of the owner is checked in the time of a lease.
const CHECKS: u32 = 10;

/// The highest position that an event can have. Clients choose the positions to resume from, and not every backend can
/// compute with all numbers.
const MAX_POSITION: u64 = u32::MAX as u64;

/// Follows the log of a stream, on behalf of a response that resumes the stream at any replica.
pub(super) struct Follower {
    replica: Arc<Replica>,
    log: StreamLog,
    owner: Slot,
    dialect: &'static Dialect,
    cursor: Cursor,
    /// The items that were read with the last entries. The number of entries that are read at once limits them.
    items: VecDeque<StreamItem>,
    /// Whether the log had no further entries when it was read last.
    is_at_end: bool,
    /// The time at which the lease of the owner is checked.
    check_at: Instant,
}

impl Follower {
    /// Continues a stream after the event with a position, or from its start at position 0. Returns `None` if there is
    /// no such stream or no such event.
    pub(super) async fn open(
        replica: &Arc<Replica>,
        log: StreamLog,
        owner: Slot,
        dialect: &'static Dialect,
        at: u64,
    ) -> Result<Option<Self>, BackendError> {
        if at > MAX_POSITION {
            return Ok(None);
        }
        // Starts with the known event, which shows that it exists.
        let before = at.saturating_sub(1);
        let Some(entries) = log.read(before).await?.filter(|entries| !entries.is_empty()) else { return Ok(None) };
        let replica = Arc::clone(replica);
        let mut follower = Self {
            replica,
            log,
            owner,
            dialect,
            cursor: Cursor::new(before),
            items: VecDeque::new(),
            is_at_end: entries.len() < PAGE,
            check_at: Instant::now(),
        };
        let known = entries.partition_point(|entry| entry.position.number() <= at);
        follower.accept(&entries[..known]);
        follower.items.clear();
        follower.accept(&entries[known..]);
        Ok(Some(follower))
    }

    /// Returns whether the client has received the whole stream.
    pub(super) fn is_complete(&self) -> bool {
        self.cursor.has_ended() && self.items.is_empty()
    }

    /// Runs until the stream or its response ends.
    pub(super) async fn run(mut self, feed: Feed) {
        let _: Result<(), Closed> = self.follow(&feed).await;
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Closed> {
        let mut backoff = Backoff::up_to(MAX_PAUSE);
        loop {
            while let Some(item) = self.items.pop_front() {
                feed.send(item).await?;
            }
            if self.cursor.has_ended() {
                return feed.send(StreamItem::End).await;
            }
            let advanced = self.advance();
            match race(advanced, feed.closed()).await {
                Ok(Ok(true)) => backoff.reset(),
                // The log or the record of its requests has expired.
                Ok(Ok(false)) => return Ok(()),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot read an event stream from the backend");
                    let _ = race(backoff.wait(), feed.closed()).await;
                }
                Err(()) => return Err(Closed),
            }
        }
    }

    /// Reads the next entries. If there were none left, waits for them first, but not longer than until the lease of the
    /// owner is checked. Returns `false` if the log, or the record of the requests that must be answered, does not exist
    /// any more.
    async fn advance(&mut self) -> Result<bool, BackendError> {
        if self.is_at_end {
            match timeout_at(self.check_at, self.log.appended(self.cursor.at())).await {
                Ok(appended) => appended?,
                Err(_) => return self.check_owner().await,
            }
        }
        Ok(self.read().await?.is_some())
    }

    /// Reads the next entries. Returns whether there were any, or `None` if the log does not exist any more.
    async fn read(&mut self) -> Result<Option<bool>, BackendError> {
        let Some(entries) = self.log.read(self.cursor.at()).await? else { return Ok(None) };
        self.is_at_end = entries.len() < PAGE;
        self.accept(&entries);
        Ok(Some(!entries.is_empty()))
    }

    /// Completes the stream if its owner is gone. Returns `false` if that is not possible.
    async fn check_owner(&mut self) -> Result<bool, BackendError> {
        if self.replica.is_alive(self.owner).await? {
            self.check_at = Instant::now() + self.replica.lease() / CHECKS;
            // The announcement of an entry may have been lost.
            self.is_at_end = false;
            return Ok(true);
        }
        let Some(calls) = self.log.calls().await? else {
            // The owner has completed the stream in the meantime, or nobody knows its requests.
            return Ok(self.read().await? == Some(true));
        };
        // If others find the same, or if the owner has written more meanwhile, their entries are read next.
        if let Append::Conflict(last) = self.log.lose(self.cursor.at(), &calls.lost(self.dialect)).await?
            && last.number() < self.cursor.at()
        {
            // The backend has lost the last entries.
            self.cursor.rewind(last.number());
        }
        self.is_at_end = false;
        Ok(true)
    }

    fn accept(&mut self, entries: &[LogEntry]) {
        self.items.extend(entries.iter().filter_map(|entry| self.cursor.accept(entry)));
    }
}

/// The maximum number of bytes that wait for the client of one response, unless it is a single event.
const MAX_UNREAD_BYTES: u32 = 1 << 20;

/// Per-event overhead, which bounds the number of events to 4,096.
const OVERHEAD: u32 = 256;

/// The items that a response has yet to send.
#[derive(Debug)]
pub(super) struct Feed {
    items: mpsc::UnboundedSender<Queued>,
    /// The bytes that may be added.
    room: Arc<Semaphore>,
    /// The position of the last event that the response has taken.
    taken: Arc<AtomicU64>,
}

/// The other end of a [`Feed`], which a response holds.
#[derive(Debug)]
pub(super) struct FeedReceiver {
    items: mpsc::UnboundedReceiver<Queued>,
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
        self.items.send(Queued { item, _room: room }).map_err(|_| Closed)
    }

    /// Waits until the response is gone.
    pub(super) async fn closed(&self) {
        self.items.closed().await;
    }
}

impl FeedReceiver {
    /// Discards the items, and refuses further ones.
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
