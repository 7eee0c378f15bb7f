//! The responses that carry streams: their registration, the record of the reader of a session, and the events that they
//! send.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, sleep},
};

use super::{
    ReplicaStreams,
    log::{MAX_PAUSE, RUNNING_TTL},
};
use crate::{
    backend::{BackendError, Backoff, RecordCondition, RecordVersion, with_timeout},
    cluster::replica::Replica,
    engine::{ReplicaHandler, Slot},
    stdx::{Mutex, race},
    transport::http::sse::events::{EventSource, GENERAL, StreamItem, Wait},
};

/// How often a response that was replaced looks for the response that carries its stream, in the time of a lease.
const CHECKS: u32 = 5;

/// The kind of the messages that announce that a response carries a stream.
pub(super) const OPEN_RESPONSES: &str = "carried";

/// The responses of a replica that carry streams, at most one for each stream. When a response begins to carry a stream
/// at any replica, the earlier response ends.
///
/// The number of connections limits the responses.
pub(super) type OpenResponses = Mutex<HashMap<Stream, Response>>;

/// A session and one of its streams.
type Stream = (Arc<str>, u64);

/// A response that carries a stream.
#[derive(Debug)]
pub(super) struct Response {
    /// The number of the response, which is unique among all replicas. The first response has that of its stream.
    number: u64,
    /// Whether the announcement of the response has arrived. All replicas receive announcements in the same order, and
    /// the response that was announced last carries the stream.
    is_announced: bool,
    /// Ends the response when dropped.
    _end: oneshot::Sender<Infallible>,
}

/// The registration of a response, which ends when dropped.
#[derive(Debug)]
pub(crate) struct OpenResponse {
    streams: Arc<ReplicaStreams>,
    stream: Stream,
    number: u64,
    ended: oneshot::Receiver<Infallible>,
}

impl ReplicaStreams {
    /// Registers a response that carries a stream. From now on, announcements of earlier responses are ignored. The first
    /// response, whose number is that of the stream, replaces none, so it need not be announced.
    pub(super) fn open_response(self: &Arc<Self>, session: &Arc<str>, stream: u64, number: u64) -> OpenResponse {
        let (end, ended) = oneshot::channel();
        let response = Response { number, is_announced: number == stream, _end: end };
        let stream = (Arc::clone(session), stream);
        self.responses.lock().insert(stream.clone(), response);
        OpenResponse { streams: Arc::clone(self), stream, number, ended }
    }

    /// Returns a future that completes when a response has to end that carried the stream of a session for messages that
    /// belong to no request, and was replaced.
    ///
    /// A client may read this stream on two connections. The client opens each of them again when it ends, so if each
    /// replaced the other, the replacements would never stop. Therefore, the earlier response stays open, without
    /// events, as long as another response carries the stream, at any replica.
    pub(super) fn replaced(&self, session: &Arc<str>) -> impl Future<Output = ()> + Send + use<> {
        let (replica, session) = (Arc::clone(&self.replica), Arc::clone(session));
        async move {
            loop {
                sleep(replica.lease() / CHECKS).await;
                match ReaderRecord::is_read(&replica, &session).await {
                    Ok(false) => return,
                    Ok(true) => {}
                    Err(error) => tracing::debug!(%error, "cannot read who carries an event stream"),
                }
            }
        }
    }
}

impl ReplicaHandler for ReplicaStreams {
    fn message(&self, payload: &[u8]) {
        let mut words = std::str::from_utf8(payload).unwrap_or_default().split(' ');
        let (Some(session), Some(Ok(stream)), Some(Ok(number))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse::<u64>))
        else {
            return;
        };
        let is_own = self.replica.slot().is_some_and(|slot| Slot::of_id(number) == Some(slot));
        let mut responses = self.responses.lock();
        let Some(response) = responses.get_mut(&(session.into(), stream)) else { return };
        if response.number == number {
            response.is_announced = true;
        } else if response.is_announced && !is_own {
            responses.remove(&(session.into(), stream));
        }
    }

    /// Announcements of this replica's responses may be lost.
    fn missed(&self) {
        self.responses.lock().values_mut().for_each(|response| response.is_announced = true);
    }
}

impl OpenResponse {
    /// Announces the response to all replicas, so that the earlier response ends.
    pub(super) async fn announce(&self) -> Result<(), BackendError> {
        let (session, stream) = &self.stream;
        self.streams.replica.announce(OPEN_RESPONSES, format!("{session} {stream} {}", self.number).as_bytes()).await
    }

    /// Returns whether another response carries the stream. Otherwise, wakes the task when one does.
    fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.ended).poll(cx).is_ready()
    }
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        let mut responses = self.streams.responses.lock();
        if responses.get(&self.stream).is_some_and(|response| response.number == self.number) {
            responses.remove(&self.stream);
        }
    }
}

/// Where a client reads the messages of its session that belong to no request, as the backend keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderRecord {
    /// The number of the response, which contains the slot of its replica.
    pub(super) response: u64,
    /// The position of the last message that the client was sent.
    pub(crate) position: u64,
    /// Whether the stream was open when its replica was last heard of.
    pub(crate) is_open: bool,
    /// The numbers of notifications of changes that the client has received, at most 8, the latest last.
    #[serde(default)]
    pub(super) received: Vec<u32>,
}

/// The maximum number of replicas at which a client may read in turn without receiving notifications twice.
const MAX_RECEIVED: usize = 8;

impl ReaderRecord {
    /// Returns the key of the record of a session.
    pub(crate) fn key(session: &str) -> String {
        format!("mcp/1/reader/{session}")
    }

    /// Reads the record of a session.
    pub(crate) async fn load(replica: &Replica, session: &str) -> Result<Option<Self>, BackendError> {
        let record = with_timeout(replica.backend().get(&Self::key(session))).await?;
        Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }

    /// Returns whether a replica that is alive has opened the stream of a session.
    pub(crate) async fn is_read(replica: &Replica, session: &str) -> Result<bool, BackendError> {
        let open = Self::load(replica, session).await?.filter(|record| record.is_open);
        match open.and_then(|record| Slot::of_id(record.response)) {
            Some(slot) => replica.is_alive(slot).await,
            None => Ok(false),
        }
    }

    /// Adds the number of a notification that the client has received.
    pub(super) fn add_received(&mut self, number: u32) {
        self.received.retain(|known| *known != number);
        self.received.push(number);
        let excess = self.received.len().saturating_sub(MAX_RECEIVED);
        self.received.drain(..excess);
    }
}

/// The record of the response that carries the stream of a session for messages that belong to no request.
#[derive(Debug)]
pub(super) struct Reader {
    replica: Arc<Replica>,
    key: String,
    record: ReaderRecord,
    version: Option<RecordVersion>,
}

impl Reader {
    /// Records a response, which replaces any other.
    pub(super) async fn open(
        replica: &Arc<Replica>,
        session: &str,
        record: ReaderRecord,
    ) -> Result<Self, BackendError> {
        let mut reader = Self { replica: Arc::clone(replica), key: ReaderRecord::key(session), record, version: None };
        reader.version = reader.write(RecordCondition::Always).await?;
        Ok(reader)
    }

    /// Postpones the time at which the record expires, unless another response has replaced this response.
    pub(super) async fn renew(&mut self, position: u64) {
        self.record.position = position;
        if let Err(error) = self.update().await {
            tracing::debug!(%error, "cannot renew the record of an event stream");
        }
    }

    async fn update(&mut self) -> Result<(), BackendError> {
        let Some(version) = self.version else { return Ok(()) };
        let mut written = self.write(RecordCondition::Version(version)).await?;
        if written.is_none() {
            // An earlier write that seemed to fail may have taken effect. If this read fails, the next renewal repeats it.
            let stored = with_timeout(self.replica.backend().get(&self.key)).await?;
            if let Some(own) = stored.filter(|stored| self.is_own(&stored.value)) {
                written = self.write(RecordCondition::Version(own.version)).await?;
            }
        }
        self.version = written;
        Ok(())
    }

    fn is_own(&self, stored: &[u8]) -> bool {
        serde_json::from_slice(stored).is_ok_and(|stored: ReaderRecord| stored.response == self.record.response)
    }

    /// Records that the response has ended, unless another response has replaced it. Repeats this until the record is
    /// written, since an earlier response may wait for it.
    pub(super) async fn close(mut self, position: u64) {
        (self.record.is_open, self.record.position) = (false, position);
        let (give_up, mut backoff) = (Instant::now() + RUNNING_TTL, Backoff::up_to(MAX_PAUSE));
        while let Err(error) = self.update().await
            && Instant::now() < give_up
        {
            tracing::debug!(%error, "cannot close the record of an event stream");
            backoff.wait().await;
        }
    }

    async fn write(&self, condition: RecordCondition) -> Result<Option<RecordVersion>, BackendError> {
        // Text and numbers can always be encoded. A reader is known for as long as its stream is.
        let value = serde_json::to_vec(&self.record).unwrap_or_default();
        with_timeout(self.replica.backend().set(&self.key, condition, value, RUNNING_TTL)).await
    }
}

/// The events of a stream, for the response that carries it.
#[derive(Debug)]
pub(super) struct FollowedEvents {
    session: Arc<str>,
    /// The id of the stream. `None` until the stream is opened.
    stream: Option<u64>,
    /// The number of the event after which the response starts.
    start: u64,
    items: FeedReceiver,
    streams: Arc<ReplicaStreams>,
    /// The registration of the response, once the stream is opened.
    registration: Option<OpenResponse>,
    /// The wait for the end of the response that has replaced this one.
    replaced: Option<Wait>,
}

impl FollowedEvents {
    /// Creates the events of a stream that is about to be opened.
    pub(super) fn unopened(streams: Arc<ReplicaStreams>, session: Arc<str>, items: FeedReceiver) -> Self {
        Self { session, stream: None, start: 0, items, streams, registration: None, replaced: None }
    }

    /// Creates the events of a stream that a response resumes after the event with a position.
    pub(super) fn resumed(start: u64, items: FeedReceiver, registration: OpenResponse) -> Self {
        let (session, stream) = registration.stream.clone();
        let unopened = Self::unopened(Arc::clone(&registration.streams), session, items);
        Self { stream: Some(stream), start, registration: Some(registration), ..unopened }
    }
}

impl EventSource for FollowedEvents {
    fn stream(&self) -> Option<u64> {
        self.stream
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn poll_next(&mut self, _: bool, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        if self.replaced.is_none() && self.registration.as_mut().is_some_and(|response| response.has_ended(cx)) {
            if self.stream != Some(GENERAL) {
                return Poll::Ready(None);
            }
            self.items.close();
            self.replaced = Some(Wait::new(self.streams.replaced(&self.session)));
        }
        if let Some(replaced) = &mut self.replaced {
            return replaced.poll(cx).map(|()| None);
        }
        let item = ready!(self.items.poll_next(cx));
        if let Some(StreamItem::Opened { stream }) = item {
            self.stream = Some(stream);
            self.registration = Some(self.streams.open_response(&self.session, stream, stream));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{
        backend::{BackendFuture, MemoryBackend},
        testing::test_backend::{BackendHook, BackendOperation, TestBackend},
    };

    fn streams() -> Arc<ReplicaStreams> {
        let backend = Arc::new(MemoryBackend::default());
        ReplicaStreams::new(&Arc::new(Replica::new(backend, std::time::Duration::from_secs(10))))
    }

    fn has_ended(response: &mut OpenResponse) -> bool {
        response.has_ended(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// Two replicas receive the announcements of two responses in the same order.
    #[test]
    fn the_response_that_was_announced_last_carries_the_stream() {
        let session: Arc<str> = "session".into();
        for (order, expected) in [([1, 2], [true, false]), ([2, 1], [false, true])] {
            let replicas = [streams(), streams()];
            let mut first = replicas[0].open_response(&session, 7, 1);
            let mut second = replicas[1].open_response(&session, 7, 2);
            for number in order {
                replicas.iter().for_each(|replica| replica.message(format!("session 7 {number}").as_bytes()));
            }
            assert_eq!([has_ended(&mut first), has_ended(&mut second)], expected, "{order:?}");
        }
    }

    #[test]
    fn a_response_ends_when_another_one_resumes_its_stream() {
        let (streams, session) = (streams(), Arc::<str>::from("session"));
        let mut first = streams.open_response(&session, 7, 7);
        for other in ["session 8 9", "other 7 9", "session 7", "session 7 x", "session 7 7"] {
            streams.message(other.as_bytes());
            assert!(!has_ended(&mut first), "{other}");
        }
        let mut second = streams.open_response(&session, 7, 9);
        assert!(has_ended(&mut first));
        drop(first);
        streams.missed();
        assert!(!has_ended(&mut second));
        streams.message(b"session 7 10");
        assert!(has_ended(&mut second));
        drop(second);
        assert!(streams.responses.lock().is_empty());
    }

    /// The announcement of an earlier response of the same replica may arrive late.
    #[tokio::test]
    async fn an_earlier_response_of_the_same_replica_does_not_end_a_later_one() {
        let (streams, session) = (streams(), Arc::<str>::from("session"));
        let slot = streams.replica.join().await.unwrap();
        let (earlier, later) = (streams.replica.next_id(slot), streams.replica.next_id(slot));
        let mut response = streams.open_response(&session, 7, later);
        streams.missed();
        streams.message(format!("session 7 {earlier}").as_bytes());
        assert!(!has_ended(&mut response));
        streams.message(b"session 7 1");
        assert!(has_ended(&mut response));
    }

    #[test]
    fn the_latest_notifications_that_were_received_are_kept() {
        let mut record = ReaderRecord { response: 0, position: 0, is_open: true, received: Vec::new() };
        for number in (1..=10).chain([5, 5]) {
            record.add_received(number);
        }
        assert_eq!(record.received, [3, 4, 6, 7, 8, 9, 10, 5]);
    }

    /// Loses the responses of the next operations, which are executed.
    #[derive(Debug, Default)]
    struct LostResponses(AtomicUsize);

    impl BackendHook for LostResponses {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            _: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            let lost = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if lost.is_err() {
                return run;
            }
            Box::pin(async {
                run.await?;
                Err(BackendError::Unavailable("the response was lost".to_owned()))
            })
        }
    }

    /// Once another response has written the record, the earlier one no longer does.
    #[tokio::test]
    async fn a_reader_whose_write_seemed_to_fail_writes_again() {
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(LostResponses::default()));
        let replica = Arc::new(Replica::new(Arc::clone(&backend) as _, std::time::Duration::from_secs(10)));
        let record = |response| ReaderRecord { response, position: 0, is_open: true, received: Vec::new() };
        let written = async || ReaderRecord::load(&replica, "session").await.unwrap().unwrap().position;
        let mut reader = Reader::open(&replica, "session", record(1)).await.unwrap();
        // The write, and after another attempt the read of the record.
        for (lost, position, expected) in [(1, 1, 1), (2, 2, 1), (0, 3, 3)] {
            backend.0.store(lost, Ordering::Relaxed);
            reader.renew(position).await;
            backend.0.store(0, Ordering::Relaxed);
            assert_eq!(written().await, expected);
        }
        Reader::open(&replica, "session", record(2)).await.unwrap().renew(4).await;
        reader.close(5).await;
        assert_eq!(written().await, 4);
    }
}
