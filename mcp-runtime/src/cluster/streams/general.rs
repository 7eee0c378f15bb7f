//! The streams of a session, and the responses that carry the messages that belong to no request.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, sleep, sleep_until},
};

use super::{
    ReplicaStreams,
    general_log::GeneralLog,
    log::{Entry, EventHeader, MAX_PAUSE, PAGE, RUNNING_TTL, StreamLog, persist},
    responses::{Closed, Feed, FollowedEvents, OpenResponse, Reader, ReaderRecord},
};
use crate::{
    backend::{BackendError, BackendFuture, Backoff, EventLogEntry, with_timeout},
    engine::{Outbox, Session},
    revision::Dialect,
    stdx::{Mutex, race},
    transport::http::{
        session::{MAX_STREAMS, SharedStreams, StreamCalls},
        sse::{
            events::{GENERAL, Resumption, StreamEvents, StreamItem},
            stream::StreamMemory,
        },
    },
};

/// The highest position that an event can have. Clients choose the positions to resume from, and not every backend can
/// compute with all numbers.
const MAX_POSITION: u64 = u32::MAX as u64;
/// The highest number of a notification of a change, after which they start at 0 again.
const MAX_CHANGE: u32 = i32::MAX as u32;

/// How long the log outside of calls, and the logs of calls that have ended with their session, outlive the session, for
/// responses that still read them.
const LAST_READ: Duration = Duration::from_secs(10);

/// The streams of a session, as one replica sees them. This type writes the streams of its calls, which [`ReplicaStreams`]
/// resumes, and follows the stream of messages that belong to no request.
///
/// All replicas write their messages to one log. The response follows this log, whichever replica it is open on.
///
/// Notifications of changes are not logged. Every replica that knows the session hears of every change and keeps it
/// pending until a response of its own has sent everything that the log contains, and then the notification. The next
/// response of the replica repeats what an earlier response has sent, unless the client has named the last notification,
/// and the copy of a session that was opened at another replica begins with everything pending. So no change is lost when a
/// connection ends or the stream moves: the client may be notified of a change twice.
#[derive(Debug)]
pub(crate) struct SessionStreams {
    pub(super) streams: Arc<ReplicaStreams>,
    session_id: Arc<str>,
    pub(super) dialect: &'static Dialect,
    /// The messages of the session that belong to no request.
    outbox: Arc<Outbox>,
    /// Their log. Most sessions never need one here.
    general: OnceLock<Box<GeneralLog>>,
    /// Runs the task that writes the log, which exists only while there is something to write.
    runtime: Handle,
    is_writing: AtomicBool,
    /// The session, whose subscriber repeats notifications.
    session: Weak<Session>,
    changes: Mutex<SentChanges>,
    complete: Mutex<CompleteLogs>,
}

/// The logs of this replica whose streams are complete.
#[derive(Debug, Default)]
struct CompleteLogs {
    /// The ids of the streams, the oldest first, at most [`MAX_STREAMS`].
    streams: VecDeque<u64>,
    has_session_ended: bool,
}

impl CompleteLogs {
    /// Adds a stream. Returns the stream whose log is to be deleted, and whether the session has ended.
    fn add(&mut self, stream: u64) -> (Option<u64>, bool) {
        self.streams.push_back(stream);
        let is_full = self.has_session_ended || self.streams.len() > MAX_STREAMS;
        (if is_full { self.streams.pop_front() } else { None }, self.has_session_ended)
    }
}

/// Deletes a log. If this fails, the log expires.
async fn remove(log: &StreamLog) {
    let _ = log.remove().await;
}

/// The notifications of changes that the responses of this replica have sent.
#[derive(Debug)]
struct SentChanges {
    /// The number of the response that sends them. Responses that it has replaced do not.
    response: u64,
    /// The number of the last notification. Each replica starts at a random number, so that no two use the same numbers.
    last: u32,
}

/// The number of an event: a position in the log, and the last notification of a change that was sent before or with it.
#[derive(Debug, Clone, Copy)]
struct EventNumber {
    position: u64,
    change: u32,
}

impl EventNumber {
    /// Returns `None` for numbers that no event has.
    fn decode(number: u64) -> Option<Self> {
        let (position, change) = (number & MAX_POSITION, u32::try_from(number >> u32::BITS).ok()?);
        (change <= MAX_CHANGE).then_some(Self { position, change })
    }

    fn encode(self) -> u64 {
        u64::from(self.change) << u32::BITS | self.position
    }
}

/// A response that carries the stream of a session for messages that belong to no request.
struct GeneralResponse {
    stream: Arc<SessionStreams>,
    /// The number of the response.
    number: u64,
    /// The position in the log.
    at: u64,
    /// The number of the last notification of a change.
    change: u32,
    reader: Reader,
}

impl SharedStreams for Arc<SessionStreams> {
    fn open(&self, calls: StreamCalls, outbox: Arc<Outbox>, lines: Vec<u8>, memory: StreamMemory) -> StreamEvents {
        let (feed, items) = Feed::new(0);
        let events = FollowedEvents::unopened(Arc::clone(&self.streams), Arc::clone(&self.session_id), items);
        let (this, unwritten) = (Arc::clone(self), self.streams.unwritten.subscribe());
        tokio::spawn(async move {
            if let Some(stream) = this.pump(calls, outbox, lines, memory, feed, unwritten).await {
                this.completed(stream).await;
            }
        });
        Box::new(events)
    }

    fn session_ended(&self) {
        let mut complete = self.complete.lock();
        complete.has_session_ended = true;
        let streams = std::mem::take(&mut complete.streams);
        drop(complete);
        let ended: Vec<_> = streams.into_iter().map(|stream| self.log(stream)).collect();
        let general = self.general.get().map(|_| self.log(GENERAL));
        self.runtime.spawn(async move {
            for log in ended {
                remove(&log).await;
            }
            if let Some(general) = general {
                sleep(LAST_READ).await;
                remove(&general).await;
            }
        });
    }

    fn resume(&self, event: Option<(u64, u64)>) -> BackendFuture<'_, Resumption> {
        Box::pin(with_timeout(async move {
            match event {
                None => self.open_general(None).await,
                Some((GENERAL, number)) => match EventNumber::decode(number) {
                    None => Ok(Resumption::Unknown),
                    after => self.open_general(after).await,
                },
                Some((_, at)) if at > MAX_POSITION => Ok(Resumption::Unknown),
                Some((stream, at)) => self.streams.resume(&self.session_id, stream, at, self.dialect).await,
            }
        }))
    }
}

impl SessionStreams {
    pub(super) fn new(streams: &Arc<ReplicaStreams>, id: &Arc<str>, session: &Arc<Session>) -> Arc<Self> {
        Arc::new(Self {
            streams: Arc::clone(streams),
            session_id: Arc::clone(id),
            dialect: session.info.dialect,
            outbox: Arc::clone(&session.outbox),
            general: OnceLock::new(),
            runtime: Handle::current(),
            is_writing: AtomicBool::new(false),
            session: Arc::downgrade(session),
            changes: Mutex::new(SentChanges { response: 0, last: random_number() }),
            complete: Mutex::default(),
        })
    }

    /// Deletes the log of the stream that was completed first if there are too many, and this one if the session has ended.
    async fn completed(self: Arc<Self>, stream: u64) {
        let (excess, has_session_ended) = self.complete.lock().add(stream);
        let excess = excess.map(|stream| self.log(stream));
        // Meanwhile, the server may end.
        drop(self);
        if has_session_ended {
            sleep(LAST_READ).await;
        }
        if let Some(excess) = excess {
            remove(&excess).await;
        }
    }

    pub(super) fn log(&self, stream: u64) -> StreamLog {
        StreamLog::new(self.streams.replica.backend(), &self.session_id, stream)
    }

    /// Starts to write the log of messages that belong to no request until the session ends.
    pub(crate) fn start(streams: &Arc<ReplicaStreams>, id: &Arc<str>, session: &Arc<Session>) -> Arc<Self> {
        let started = Self::new(streams, id, session);
        if started.poll_due().is_ready() {
            Arc::clone(&started).wake();
        }
        started
    }

    fn general(&self) -> &GeneralLog {
        self.general.get_or_init(|| Box::new(GeneralLog::new(self.log(GENERAL))))
    }

    /// Opens the stream for a response, which begins after an event or else after the last event that an earlier response
    /// has carried. Any other response that carries the stream ends.
    async fn open_general(self: &Arc<Self>, after: Option<EventNumber>) -> Result<Resumption, BackendError> {
        let replica = &self.streams.replica;
        let slot = replica.join().await?;
        let known = ReaderRecord::load(replica, &self.session_id).await?;
        let at = match after.map(|after| after.position) {
            Some(0) => 0,
            Some(at) => match self.general().log.read(at - 1).await? {
                Some(entries) if !entries.is_empty() => at,
                _ => return Ok(Resumption::Unknown),
            },
            None => known.as_ref().map_or(0, |known| known.position),
        };
        let received = known.map(|known| known.received).unwrap_or_default();
        let number = replica.next_id(slot);
        let mut record = ReaderRecord { response: number, position: at, is_open: true, received };
        if let Some(after) = after {
            record.add_received(after.change);
        }
        let registration = self.replace_response(number, &record.received);
        let reader = Reader::open(replica, &self.session_id, record).await?;
        let (feed, items) = Feed::new(at);
        let start = EventNumber { position: at, change: after.map_or(0, |after| after.change) };
        let response = GeneralResponse { stream: Arc::clone(self), number, at, change: start.change, reader };
        // From now on, messages are for this response. Its task may run later.
        self.outbox.open_reader();
        // Closes the record if the announcement fails.
        tokio::spawn(response.run(feed));
        registration.announce().await?;
        let events = FollowedEvents::resumed(start.encode(), items, registration);
        Ok(Resumption::Events(Box::new(events)))
    }

    /// Writes the messages that originate at this replica to the log, until there are none.
    async fn write(self: Arc<Self>) {
        let mut lines = Vec::new();
        // Another task takes what it finds after it has been registered for the next message.
        while !self.is_writing.swap(true, Ordering::AcqRel) {
            let is_closed = self.outbox.is_closed();
            self.outbox.drain_lines(&mut lines);
            let mut entries = Vec::new();
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // If the replica gets no slot for too long, the messages are lost, as they are if the append below
                // fails.
                let Some(slot) = persist(|| self.streams.replica.join(), |_| true).await else { break };
                let header = EventHeader { number: self.streams.replica.next_id(slot), is_answered: false };
                entries.push(Entry::Message { header, line }.encode());
            }
            lines.clear();
            if !entries.is_empty() {
                // The messages are lost if the backend fails for too long, as they are if the client does not read.
                persist(|| self.general().append(&entries), |_| true).await;
            }
            self.is_writing.store(false, Ordering::Release);
            if is_closed {
                // The outbox may have been closed after this value has become its waker, which would keep both.
                self.outbox.wake();
                return;
            }
            if self.poll_due().is_pending() {
                return;
            }
        }
    }

    /// Returns whether there is something to write. Otherwise, wakes this value when there is.
    fn poll_due(self: &Arc<Self>) -> Poll<()> {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        // Registers the waker before the checks, so that no change is missed.
        let lines = self.outbox.poll_lines(&mut cx);
        if self.outbox.is_closed() { Poll::Ready(()) } else { lines }
    }

    /// Registers a response in place of an earlier response. It repeats the notifications of changes that the earlier
    /// response has sent, unless the client has received the last of them.
    fn replace_response(&self, response: u64, received: &[u32]) -> OpenResponse {
        let mut changes = self.changes.lock();
        changes.response = response;
        let session = self.session.upgrade();
        if let Some(subscriber) = session.as_ref().and_then(|session| session.subscriber.as_ref()) {
            if received.contains(&changes.last) {
                subscriber.acknowledge();
            } else {
                subscriber.repeat();
            }
        }
        self.streams.open_response(&self.session_id, GENERAL, response)
    }

    /// Takes the pending notifications of changes for a response, with the number of each: at most one for each subscription.
    /// Further changes stay pending until they are sent.
    ///
    /// # Errors
    ///
    /// Fails if the response was replaced.
    fn take_changes(&self, response: u64) -> Result<Vec<(u32, Vec<u8>)>, Closed> {
        let mut changes = self.changes.lock();
        if changes.response != response {
            return Err(Closed);
        }
        let mut lines = Vec::new();
        self.outbox.drain_pending(&mut lines);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| (changes.next(), line.to_vec())).collect())
    }
}

impl SentChanges {
    fn next(&mut self) -> u32 {
        self.last = (self.last + 1) & MAX_CHANGE;
        self.last
    }
}

/// Returns a random number of a notification.
fn random_number() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, replicas use the same numbers.
    let _ = crate::random::fill(&mut bytes);
    u32::from_le_bytes(bytes) & MAX_CHANGE
}

/// The outbox keeps a session's streams as its waker, which costs less than a task that waits.
impl Wake for SessionStreams {
    fn wake(self: Arc<Self>) {
        let runtime = self.runtime.clone();
        runtime.spawn(self.write());
    }
}

impl GeneralResponse {
    /// Follows the log until the response or the session ends. Waits most of the time, so only what it waits for is stored
    /// in place.
    async fn run(mut self, feed: Feed) {
        let _: Result<(), Closed> = self.follow(&feed).await;
        self.stream.outbox.close_reader();
        Box::pin(self.reader.close(feed.taken() & MAX_POSITION)).await;
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Closed> {
        let mut renew_at = Instant::now();
        // The log of a stream that is resumed may be about to expire.
        if self.at == 0 {
            renew_at += RUNNING_TTL / 2;
        }
        let [mut backoff, mut wait_backoff] = [(); 2].map(|()| Backoff::up_to(MAX_PAUSE));
        loop {
            // Read before the log, so that a response that ends has sent every message that was appended before the end.
            let is_closed = self.stream.outbox.is_closed();
            match race(Box::pin(self.next(is_closed)), feed.closed()).await {
                Ok(Ok(entries)) => {
                    backoff.reset();
                    Box::pin(self.send(&entries, feed)).await?;
                    // More entries may follow a full page. The wait for the next entry ends at once if one exists.
                    if entries.len() < PAGE {
                        if !is_closed {
                            self.wait(renew_at, &mut wait_backoff, feed).await?;
                        } else if entries.is_empty() {
                            return feed.send(StreamItem::End).await;
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot read an event stream from the backend");
                    let _ = race(backoff.wait(), feed.closed()).await;
                }
                Err(()) => return Err(Closed),
            }
            let now = Instant::now();
            if renew_at <= now {
                renew_at = now + RUNNING_TTL / 2;
                Box::pin(self.reader.renew(feed.taken() & MAX_POSITION)).await;
                let kept = Box::pin(self.stream.general().log.keep_alive(self.at)).await;
                if kept.is_ok_and(|append| append.last().number() < self.at) {
                    // The backend has lost the log, and begins a new one.
                    self.at = 0;
                }
            }
        }
    }

    /// Sends notifications of changes until there may be further entries, or until something else is due.
    async fn wait(&mut self, renew_at: Instant, backoff: &mut Backoff, feed: &Feed) -> Result<(), Closed> {
        let stream = Arc::clone(&self.stream);
        let mut appended = pin!(stream.general().log.appended(self.at));
        loop {
            for (change, line) in self.stream.take_changes(self.number)? {
                self.change = change;
                self.send_line(&line, feed).await?;
            }
            tokio::select! {
                appended = &mut appended => match appended {
                    Ok(()) => backoff.reset(),
                    Err(_) => backoff.wait().await,
                },
                () = self.stream.outbox.until_pending() => {
                    if !self.stream.outbox.is_closed() {
                        continue;
                    }
                }
                () = sleep_until(renew_at) => {}
                () = feed.closed() => return Err(Closed),
            }
            return Ok(());
        }
    }

    /// Returns the next entries. Returns none if there are no newer entries. If the session `is_closed`, first waits for
    /// the entries that this replica is appending.
    async fn next(&mut self, is_closed: bool) -> Result<Vec<EventLogEntry>, BackendError> {
        let general = self.stream.general();
        if is_closed {
            general.settled().await;
        }
        if let Some(entries) = general.log.read(self.at).await? {
            return Ok(entries);
        }
        // The log does not exist. A new log begins at its start.
        self.at = 0;
        general.log.keep_alive(self.at).await?;
        Ok(general.log.read(self.at).await?.unwrap_or_default())
    }

    async fn send(&mut self, entries: &[EventLogEntry], feed: &Feed) -> Result<(), Closed> {
        for entry in entries {
            let position = entry.position.number();
            self.at = position;
            if let Some(Entry::Message { line, .. }) = Entry::decode(&entry.value) {
                self.send_line(line, feed).await?;
            }
        }
        Ok(())
    }

    async fn send_line(&self, line: &[u8], feed: &Feed) -> Result<(), Closed> {
        let number = EventNumber { position: self.at, change: self.change };
        feed.send(StreamItem::Event { position: number.encode(), line: line.to_vec().into() }).await
    }
}
