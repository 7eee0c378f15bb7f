use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    entry::Entry,
    feed::{Closed, Feed},
    log::{RUNNING_TTL, StreamLog},
    pump::{MIN_RETRY, persist},
    reader::{Reader, ReaderRecord},
    streams::{GENERAL, Resumption, SharedStreams, StreamItem},
};
use crate::{
    backend::{BackendError, LogEntry},
    engine::{Outbox, Session},
    race::race,
};

/// The number of messages among which those that were written twice are recognized.
const RECENT_MESSAGES: usize = 256;

/// The stream of a session for messages that belong to no request, as one replica sees it.
///
/// Every replica writes the messages that originate there to one log, which the response follows wherever it is.
/// Notifications of changes are pending at every replica, but only one collects them: the one at which the client has
/// opened its stream last or, before that, the one that has opened the session. It writes them when its client has
/// received everything before, so that a flood of changes does not fill the log. When the client opens its stream
/// elsewhere, it writes what is pending and says so. If that does not happen within a lease, the new collector assumes
/// that everything has changed.
#[derive(Debug)]
pub(in crate::transport::http) struct GeneralStream {
    streams: Arc<SharedStreams>,
    session_id: Arc<str>,
    session: Weak<Session>,
    outbox: Arc<Outbox>,
    log: StreamLog,
    collection: Mutex<Collection>,
}

#[derive(Debug, Default)]
struct Collection {
    /// Whether this replica collects notifications of changes.
    is_collector: bool,
    /// Whether the earlier collector may still have some that are pending.
    is_incomplete: bool,
    /// Whether the client has received everything, so that pending notifications are written.
    is_wanted: bool,
    /// The number of the response elsewhere for which everything pending is written.
    flush_for: Option<u64>,
}

impl GeneralStream {
    /// Creates the stream, and starts to write its log until the session ends. `is_collector` is whether this replica
    /// has opened the session.
    pub(in crate::transport::http) fn start(
        streams: &Arc<SharedStreams>,
        session_id: Arc<str>,
        session: &Arc<Session>,
        is_collector: bool,
    ) -> Arc<Self> {
        let log = StreamLog::new(streams.replica().backend(), &session_id, GENERAL);
        let general = Arc::new(Self {
            streams: Arc::clone(streams),
            session_id,
            session: Arc::downgrade(session),
            outbox: Arc::clone(&session.outbox),
            log,
            collection: Mutex::new(Collection { is_collector, ..Collection::default() }),
        });
        tokio::spawn(Arc::clone(&general).write());
        general
    }

    pub(super) fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// Removes the logs of complete streams of the session, which has ended, as far as this replica has written them.
    pub(in crate::transport::http) fn remove_logs(&self) {
        self.streams.remove_logs(&self.session_id);
    }

    /// Opens the stream for a response, after the event with a position or, without one, after what an earlier response
    /// has carried. Any other response that carries the stream ends.
    pub(in crate::transport::http) async fn open(
        self: &Arc<Self>,
        position: Option<u64>,
    ) -> Result<Resumption, BackendError> {
        let replica = self.streams.replica();
        let slot = replica.join().await?;
        let known = Reader::load(replica, &self.session_id).await?;
        let at = match position {
            Some(0) => 0,
            Some(at) => match self.log.read(at - 1).await? {
                Some(entries) if !entries.is_empty() => at,
                _ => return Ok(Resumption::Unknown),
            },
            None => known.map_or(0, |known| known.position),
        };
        let number = slot.id(self.streams.next_number());
        let is_incomplete = self.begin_to_collect();
        let record = ReaderRecord { slot, position: at, is_open: true };
        let reader = Reader::open(replica, &self.session_id, record).await?;
        let carrier = self.streams.carriers().resume(replica, &self.session_id, GENERAL, number).await?;
        let (feed, items) = Feed::new(at);
        let complete_at = is_incomplete.then(|| Instant::now() + replica.lease());
        let response = Response { general: Arc::clone(self), number, at, recent: VecDeque::new(), reader, complete_at };
        // From now on, messages are for this response. Its task may run later.
        self.outbox.open_reader();
        tokio::spawn(response.run(feed));
        Ok(Resumption::Events(self.streams.events(&self.session_id, GENERAL, items, Some(carrier))))
    }

    /// Makes this replica the collector of notifications. Returns whether an earlier one may have some that are pending.
    fn begin_to_collect(&self) -> bool {
        let mut collection = self.collection();
        if !collection.is_collector {
            collection.is_collector = true;
            collection.is_incomplete = true;
            collection.flush_for = None;
            // The earlier collector has or writes them.
            self.outbox.discard_pending();
        }
        collection.is_incomplete
    }

    /// Handles that a response at another replica carries the stream.
    pub(super) fn moved_to(&self, number: u64) {
        let mut collection = self.collection();
        if collection.is_collector && !collection.is_incomplete {
            collection.flush_for = Some(number);
        }
        collection.is_collector = false;
        collection.is_wanted = false;
        drop(collection);
        self.outbox.wake();
    }

    /// Writes the messages that originate at this replica to the log.
    async fn write(self: Arc<Self>) {
        self.streams.carriers().add_general(&self);
        let replica = self.streams.replica();
        let mut lines = Vec::new();
        loop {
            let is_closed = self.outbox.is_closed();
            let (flush_for, with_changes) = self.take_flush();
            if with_changes {
                self.outbox.drain(&mut lines);
            } else {
                self.outbox.drain_lines(&mut lines);
            }
            let messages = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let mut entries = Vec::new();
            for line in messages {
                let Some(slot) = persist(|| replica.join()).await else { return };
                let number = slot.id(self.streams.next_number());
                entries.push(Entry::Message { number, line }.encode());
            }
            lines.clear();
            entries.extend(flush_for.map(|number| Entry::Flushed(number).encode()));
            if !entries.is_empty() {
                self.collection().is_wanted = false;
                // The messages are lost if the backend fails for too long, as they are if the client does not read.
                let _ = persist(|| self.log.append(entries.clone())).await;
            }
            if is_closed {
                return;
            }
            poll_fn(|cx| {
                let output =
                    if self.writes_changes() { self.outbox.poll_output(cx) } else { self.outbox.poll_lines(cx) };
                // The waker is registered, so that no change is missed.
                if self.collection().flush_for.is_some() || self.outbox.is_closed() { Poll::Ready(()) } else { output }
            })
            .await;
        }
    }

    /// Takes the request to write everything that is pending. Also returns whether to write pending notifications.
    fn take_flush(&self) -> (Option<u64>, bool) {
        let mut collection = self.collection();
        let flush_for = collection.flush_for.take();
        (flush_for, flush_for.is_some() || (collection.is_collector && collection.is_wanted))
    }

    fn writes_changes(&self) -> bool {
        let collection = self.collection();
        collection.is_collector && collection.is_wanted
    }

    fn want_changes(&self) {
        let was_wanted = std::mem::replace(&mut self.collection().is_wanted, true);
        if !was_wanted {
            self.outbox.wake();
        }
    }

    /// Records that no earlier collector has notifications that are pending.
    fn complete(&self) {
        self.collection().is_incomplete = false;
    }

    fn collection(&self) -> MutexGuard<'_, Collection> {
        self.collection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GeneralStream {
    fn drop(&mut self) {
        self.streams.carriers().remove_general(&self.session_id);
    }
}

/// A response that carries the stream.
struct Response {
    general: Arc<GeneralStream>,
    number: u64,
    /// The position in the log.
    at: u64,
    /// The numbers of the latest messages.
    recent: VecDeque<u64>,
    reader: Reader,
    /// The time at which everything counts as changed, unless the earlier collector has written what was pending.
    complete_at: Option<Instant>,
}

impl Response {
    /// Follows the log until the response or the session ends.
    async fn run(mut self, feed: Feed) {
        let general = Arc::clone(&self.general);
        let _: Result<(), Closed> = self.follow(&feed).await;
        general.outbox.close_reader();
        self.reader.close(feed.taken()).await;
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Closed> {
        let mut renew_at = Instant::now() + RUNNING_TTL / 2;
        loop {
            match race(self.read(), feed.closed()).await {
                Ok(Ok(entries)) if entries.is_empty() => {
                    self.general.want_changes();
                    if self.general.outbox.is_closed() {
                        return feed.send(StreamItem::End).await;
                    }
                    let due = self.complete_at.map_or(renew_at, |at| at.min(renew_at));
                    let appended = self.general.log.appended(self.at);
                    let woken = race(appended, race(sleep_until(due), self.general.outbox.until_closed()));
                    let woken = race(woken, feed.closed()).await.map_err(|()| Closed)?;
                    if let Ok(Err(_)) = woken {
                        sleep(MIN_RETRY).await;
                    }
                }
                Ok(Ok(entries)) => self.send(&entries, feed).await?,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot read an event stream from the backend");
                    let _ = race(sleep(MIN_RETRY), feed.closed()).await;
                }
                Err(()) => return Err(Closed),
            }
            let now = Instant::now();
            if self.complete_at.take_if(|at| *at <= now).is_some() {
                self.general.complete();
                if let Some(session) = self.general.session.upgrade() {
                    session.renotify();
                }
            }
            if renew_at <= now {
                renew_at = now + RUNNING_TTL / 2;
                self.reader.renew(feed.taken()).await;
                let _ = self.general.log.append(vec![Entry::Alive.encode()]).await;
            }
        }
    }

    async fn read(&mut self) -> Result<Vec<LogEntry>, BackendError> {
        if let Some(entries) = self.general.log.read(self.at).await? {
            return Ok(entries);
        }
        // The log has never existed, or has expired.
        self.general.log.append(vec![Entry::Alive.encode()]).await?;
        self.at = 0;
        Ok(self.general.log.read(0).await?.unwrap_or_default())
    }

    async fn send(&mut self, entries: &[LogEntry], feed: &Feed) -> Result<(), Closed> {
        for entry in entries {
            let position = entry.position.number();
            self.at = position;
            match Entry::decode(&entry.value) {
                // A message is written twice if an attempt was successful although it seemed to fail.
                Some(Entry::Message { number, line }) if !self.recent.contains(&number) => {
                    self.recent.push_back(number);
                    if self.recent.len() > RECENT_MESSAGES {
                        self.recent.pop_front();
                    }
                    feed.send(StreamItem::Event { position, line: line.to_vec().into() }).await?;
                }
                Some(Entry::Flushed(number)) if number == self.number => {
                    self.complete_at = None;
                    self.general.complete();
                }
                _ => {}
            }
        }
        Ok(())
    }
}
