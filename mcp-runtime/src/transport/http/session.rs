//! The sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

use std::{
    cmp::{self, Reverse},
    collections::{BTreeMap, BinaryHeap, HashMap},
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    options::HttpOptions,
    peers::{Peer, PeerPermit, Pool, Resource},
    sse::stream::{AttachedStream, EventStream, StreamMemory},
};
use crate::{
    engine::{Outbox, Session, session_ended},
    random,
};

/// The maximum number of streams that one session keeps for a client that may reconnect.
const MAX_STREAMS: usize = 32;

/// The minimum time between two scans for streams to evict, after a scan that did not free enough memory.
const FRUITLESS_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// The sessions by id. The ids are random, so clients cannot provoke collisions and a fast hasher is safe.
type Table = HashMap<Arc<str>, Entry, foldhash::fast::RandomState>;

/// All sessions of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<Table>,
    /// One permit for each session.
    pool: Pool,
    idle_timeout: Duration,
    memory: StreamMemory,
    fruitless_scan: Mutex<Option<FruitlessScan>>,
}

/// A session in the table.
#[derive(Debug)]
struct Entry {
    session: Arc<HttpSession>,
    permit: PeerPermit,
}

/// A scan for streams to evict that did not free enough memory.
#[derive(Debug, Clone, Copy)]
struct FruitlessScan {
    at: Instant,
    /// The memory that remained in use.
    used: usize,
}

/// One session.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Arc<Session>,
    memory: StreamMemory,
    state: Mutex<SessionState>,
    /// The number of [`ActiveSession`]s.
    active: AtomicUsize,
    /// Whether any request has used the session after `initialize`.
    is_used: AtomicBool,
}

#[derive(Debug)]
struct SessionState {
    last_used: Instant,
    next_stream: u64,
    streams: BTreeMap<u64, Arc<EventStream>>,
}

/// A complete stream that no response carries, and the session it belongs to.
struct AbandonedStream<'a> {
    session: &'a HttpSession,
    id: u64,
    has_unsent: bool,
    opened: Instant,
}

/// A session that is not idle: held by its requests in progress and its open responses.
#[derive(Debug)]
pub(super) struct ActiveSession {
    session: Arc<HttpSession>,
    /// The time at which the request or response ended. If not set, it ends when this value is dropped.
    pub(super) end: Option<Instant>,
}

impl Sessions {
    pub(super) fn new(options: &HttpOptions) -> Self {
        Self {
            table: Mutex::default(),
            pool: Pool::new(Resource::Sessions, options.max_sessions, options.max_peer_share),
            idle_timeout: options.session_idle,
            memory: StreamMemory::default(),
            fruitless_scan: Mutex::default(),
        }
    }

    /// Returns the memory that all streams of the server share, including those without a session.
    pub(super) fn memory(&self) -> &StreamMemory {
        &self.memory
    }

    /// Adds a session of a peer and returns its id. If there are too many sessions, evicts idle ones. Returns `None` if
    /// none is idle, or if the operating system provides no random bytes.
    pub(super) fn open(&self, session: Arc<Session>, peer: &Arc<Peer>) -> Option<Arc<str>> {
        let permit = self.reserve(peer)?;
        let id = new_id()?;
        let session = Arc::new(HttpSession::new(session, self.memory.of_peer(peer)));
        self.table().insert(Arc::clone(&id), Entry { session, permit });
        Some(id)
    }

    /// Returns a permit for a session of a peer. If there are too many sessions, evicts idle ones. Returns `None` if
    /// none is idle.
    pub(super) fn reserve(&self, peer: &Arc<Peer>) -> Option<PeerPermit> {
        self.pool
            .try_acquire(peer, 1)
            .or_else(|| {
                self.sweep(Instant::now());
                self.pool.try_acquire(peer, 1)
            })
            .or_else(|| {
                evict_idle(&mut self.table(), (self.pool.free() > 0).then_some(peer));
                self.pool.try_acquire(peer, 1)
            })
    }

    /// Returns the session with this id and keeps it from becoming idle. Returns `None` if another principal opened it,
    /// or if it has expired or ended, in which case it is removed.
    pub(super) fn find(&self, id: &str, principal: Option<&str>, now: Instant) -> Option<ActiveSession> {
        let mut table = self.table();
        // For other principals the session does not exist, so their requests must not keep it from expiring either.
        let found = table.get(id).map(|entry| &entry.session);
        let session = found.filter(|found| found.session.info.principal.as_deref() == principal)?;
        if session.is_over(self.idle_timeout, now) {
            table.remove(id);
            return None;
        }
        session.session.record_sign_of_life();
        session.is_used.store(true, Ordering::Relaxed);
        // Activated while the table is locked, so that no other thread evicts it as idle.
        Some(HttpSession::activate(session))
    }

    /// Ends a session: fails its calls and ends its streams.
    pub(super) fn close(&self, id: &str) {
        let removed = self.table().remove(id);
        if let Some(Entry { session, .. }) = removed {
            session.end();
        }
    }

    /// Ends every session.
    pub(super) fn close_all(&self) {
        let sessions = std::mem::take(&mut *self.table());
        // The table must be unlocked here: cancelled calls access it as they end.
        sessions.into_values().for_each(|entry| entry.session.end());
    }

    /// Removes expired sessions, which ends them: an idle session has no calls to cancel, and no response carries its
    /// streams. Also removes sessions that have ended because their clients no longer respond.
    pub(super) fn sweep(&self, now: Instant) {
        self.table().retain(|_, entry| !entry.session.is_over(self.idle_timeout, now));
    }

    /// Evicts abandoned streams if the memory of all streams is full: those of the peer whose streams keep the most,
    /// fully sent ones first, then the oldest.
    ///
    /// A scan visits every session. After a scan that did not free enough, the next one runs only when
    /// [`FRUITLESS_SCAN_INTERVAL`] has passed or memory use has grown considerably.
    pub(super) fn evict_streams(&self) {
        if !self.memory.is_full() {
            return;
        }
        let mut fruitless_scan = self.fruitless_scan.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.memory.max() / 8;
        let is_recent =
            |scan: FruitlessScan| scan.at.elapsed() < FRUITLESS_SCAN_INTERVAL && self.memory.used() < scan.used + step;
        if !self.memory.is_full() || fruitless_scan.is_some_and(is_recent) {
            return;
        }
        self.evict_streams_down_to(self.memory.max() - step);
        *fruitless_scan = self.memory.is_full().then(|| FruitlessScan { at: Instant::now(), used: self.memory.used() });
    }

    fn evict_streams_down_to(&self, target: usize) {
        let entries = |entry: &Entry| (Arc::clone(&entry.session), Arc::clone(entry.permit.peer()));
        let sessions: Vec<_> = self.table().values().map(entries).collect();
        let mut by_peer: HashMap<*const Peer, PeerStreams<'_>> = HashMap::new();
        for (session, peer) in &sessions {
            let streams = by_peer.entry(Arc::as_ptr(peer)).or_insert_with(|| PeerStreams::new(peer));
            streams.abandoned.extend(session.abandoned_streams());
        }
        let mut by_peer: BinaryHeap<_> = by_peer.into_values().map(PeerStreams::sorted).collect();
        let mut lost = 0;
        while self.memory.used() > target
            && let Some(mut streams) = by_peer.pop()
        {
            // A peer without abandoned streams is not considered again.
            let Some(stream) = streams.abandoned.pop() else { continue };
            lost += usize::from(stream.evict() && stream.has_unsent);
            streams.kept = streams.peer.stream_bytes().load(Ordering::Relaxed);
            by_peer.push(streams);
        }
        if lost > 0 {
            tracing::warn!(lost, "unsent responses discarded: too much data is kept for clients that may reconnect");
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes idle sessions of a peer, by default of the one that has the most: first those that were never used, then
/// those that have been idle longest. Removes 1/64 of the peer's sessions, so that the next new ones need no scan.
fn evict_idle(table: &mut Table, peer: Option<&Arc<Peer>>) {
    let is_idle = |entry: &&Entry| entry.session.is_idle();
    let peer = peer.or_else(|| {
        let peers = table.values().filter(is_idle).map(|entry| entry.permit.peer());
        peers.max_by_key(|peer| peer.used(Resource::Sessions))
    });
    let Some(peer) = peer.map(Arc::clone) else { return };
    let idle = table.iter().filter(|(_, entry)| is_idle(entry) && Arc::ptr_eq(entry.permit.peer(), &peer));
    let key = |entry: &Entry| (entry.session.is_used.load(Ordering::Relaxed), entry.session.state().last_used);
    let mut idle: Vec<_> = idle.map(|(id, entry)| (key(entry), Arc::clone(id))).collect();
    idle.sort_unstable();
    idle.truncate((peer.used(Resource::Sessions) / 64).max(1));
    tracing::warn!(evicted = idle.len(), "too many sessions: evicting idle ones");
    for (_, id) in idle {
        table.remove(&id);
    }
}

/// The abandoned streams of a peer, in the reverse order of their eviction. Peers are ordered by what their streams
/// keep.
struct PeerStreams<'a> {
    peer: &'a Peer,
    kept: usize,
    abandoned: Vec<AbandonedStream<'a>>,
}

impl<'a> PeerStreams<'a> {
    fn new(peer: &'a Peer) -> Self {
        Self { peer, kept: peer.stream_bytes().load(Ordering::Relaxed), abandoned: Vec::new() }
    }

    fn sorted(mut self) -> Self {
        self.abandoned.sort_unstable_by_key(|stream| Reverse((stream.has_unsent, stream.opened)));
        self
    }
}

impl Ord for PeerStreams<'_> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.kept.cmp(&other.kept)
    }
}

impl PartialOrd for PeerStreams<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PeerStreams<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl Eq for PeerStreams<'_> {}

impl HttpSession {
    fn new(session: Arc<Session>, memory: StreamMemory) -> Self {
        let state = SessionState { last_used: Instant::now(), next_stream: 1, streams: BTreeMap::new() };
        memory.watch(&session.outbox);
        Self { session, memory, state: Mutex::new(state), active: AtomicUsize::new(0), is_used: AtomicBool::new(false) }
    }

    /// Fails the session's calls and ends its streams.
    fn end(&self) {
        self.session.end();
        let streams = std::mem::take(&mut self.state().streams);
        // The state is unlocked before the streams are dropped.
        drop(streams);
    }

    /// Fails the calls that a request has started if another request has ended the session in the meantime.
    pub(super) fn fail_if_ended(&self) {
        if self.session.has_ended() {
            self.session.in_flight.fail_all(&session_ended());
        }
    }

    fn activate(self: &Arc<Self>) -> ActiveSession {
        self.active.fetch_add(1, Ordering::AcqRel);
        ActiveSession { session: Arc::clone(self), end: None }
    }

    /// Opens a stream for the responses that an outbox will receive. Drops the oldest stream, preferably one that is
    /// over, if the session has too many.
    pub(super) fn open_stream(&self, outbox: Arc<Outbox>) -> AttachedStream {
        let mut state = self.state();
        let id = state.next_stream;
        state.next_stream += 1;
        let stream = Arc::new(EventStream::new(id, outbox, true, &self.memory));
        let attached = stream.attach();
        state.streams.insert(id, stream);
        if state.streams.len() > MAX_STREAMS {
            let over = state.streams.iter().find(|(id, stream)| **id != 0 && stream.is_over()).map(|(id, _)| *id);
            let oldest = over.or_else(|| state.streams.keys().copied().find(|id| *id != 0));
            oldest.and_then(|id| state.streams.remove(&id));
        }
        attached
    }

    /// Returns the stream for messages that belong to no request.
    pub(super) fn general_stream(&self) -> AttachedStream {
        let new = || Arc::new(EventStream::new(0, Arc::clone(&self.session.outbox), false, &self.memory));
        // If the session has ended in the meantime, its outbox is closed, which ends the stream.
        self.state().streams.entry(0).or_insert_with(new).attach()
    }

    /// Returns the stream with this id, unless it was dropped.
    pub(super) fn stream(&self, id: u64) -> Option<AttachedStream> {
        self.state().streams.get(&id).map(EventStream::attach)
    }

    fn abandoned_streams(&self) -> Vec<AbandonedStream<'_>> {
        let state = self.state();
        let abandoned = state.streams.iter().filter(|(_, stream)| is_abandoned(stream));
        let describe = |(id, stream): (&u64, &Arc<EventStream>)| {
            let (has_unsent, opened) = (stream.has_unsent(), stream.opened());
            AbandonedStream { session: self, id: *id, has_unsent, opened }
        };
        abandoned.map(describe).collect()
    }

    fn touch(&self, now: Instant) {
        let mut state = self.state();
        state.last_used = now.max(state.last_used);
    }

    fn is_idle(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0 && self.session.in_flight.count() == 0
    }

    fn is_idle_for(&self, time: Duration, now: Instant) -> bool {
        self.is_idle() && now.saturating_duration_since(self.state().last_used) > time
    }

    /// Returns whether the session has ended, or has been idle for `idle_timeout`.
    fn is_over(&self, idle_timeout: Duration, now: Instant) -> bool {
        self.session.has_ended() || self.is_idle_for(idle_timeout, now)
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        self.session.end();
    }
}

/// Returns whether a stream is complete, and no response carries it or is about to. Streams are attached only with the
/// session's state locked, so the result holds as long as the caller keeps the lock.
fn is_abandoned(stream: &EventStream) -> bool {
    !stream.is_attached() && stream.is_complete()
}

impl AbandonedStream<'_> {
    /// Removes the stream unless a client has resumed it in the meantime. Returns whether it was removed.
    fn evict(&self) -> bool {
        let mut state = self.session.state();
        let is_still_abandoned = state.streams.get(&self.id).is_some_and(|stream| is_abandoned(stream));
        let evicted = if is_still_abandoned { state.streams.remove(&self.id) } else { None };
        drop(state);
        evicted.is_some()
    }
}

impl Deref for ActiveSession {
    type Target = HttpSession;

    fn deref(&self) -> &HttpSession {
        &self.session
    }
}

impl Drop for ActiveSession {
    fn drop(&mut self) {
        self.session.touch(self.end.unwrap_or_else(Instant::now));
        self.session.active.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns a random session id in visible ASCII, or `None` if the operating system provides no random bytes.
pub(super) fn new_id() -> Option<Arc<str>> {
    random::id().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::peers::{Peers, Share};

    const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\"}\n";

    fn peers() -> Arc<Peers> {
        Arc::new(Peers::new(Share::new(0.75)))
    }

    fn open(sessions: &Sessions, peer: &Arc<Peer>) -> Arc<HttpSession> {
        let id = sessions.open(Arc::new(Session::for_test()), peer).expect("the session is opened");
        Arc::clone(&sessions.table()[&id].session)
    }

    /// A message of one byte more than a quarter of the memory.
    fn quarter(sessions: &Sessions) -> Vec<u8> {
        let mut line = vec![b'x'; sessions.memory.max() / 4 + 1];
        line.push(b'\n');
        line
    }

    #[test]
    fn the_excess_of_a_peer_evicts_its_own_streams() {
        let sessions = Sessions::new(&HttpOptions::default());
        let peers = peers();
        let (ada, eve) = (open(&sessions, &peers.principal("ada")), open(&sessions, &peers.principal("eve")));
        // The stream of the other peer is the oldest, and has been sent.
        let stream = ada.open_stream(Outbox::for_test());
        stream.append(LINE);
        assert!(stream.after(0).is_some());
        drop(stream);
        for _ in 0..4 {
            eve.open_stream(Outbox::for_test()).append(&quarter(&sessions));
        }
        sessions.evict_streams();
        assert_eq!((ada.state().streams.len(), eve.state().streams.len()), (1, 3));
    }

    #[test]
    fn sessions_beyond_a_limit_evict_idle_ones_of_the_largest_peer() {
        let sessions = Sessions::new(&HttpOptions::default().max_sessions(8));
        let peers = peers();
        let [ada, eve, bob] = ["ada", "eve", "bob"].map(|name| peers.principal(name));
        let counts = || [&ada, &eve, &bob].map(|peer| peer.used(Resource::Sessions));
        let first = open(&sessions, &ada);
        for _ in 0..20 {
            drop(open(&sessions, &eve));
        }
        // 6 of the 7 that are left.
        assert_eq!(counts(), [1, 6, 0]);
        drop(open(&sessions, &bob));
        assert_eq!(counts(), [1, 6, 1]);
        // The table is full. Each new session evicts one of the peer with the most.
        for expected in [[1, 5, 2], [1, 4, 3]] {
            drop(open(&sessions, &bob));
            assert_eq!(counts(), expected);
        }
        assert!(!first.session.has_ended());
    }

    #[test]
    fn sessions_that_were_never_used_are_evicted_first() {
        let sessions = Sessions::new(&HttpOptions::default().max_sessions(4).max_peer_share(1.0));
        let ada = peers().principal("ada");
        let ids: Vec<_> = (0..4)
            .map(|_| sessions.open(Arc::new(Session::for_test()), &ada).expect("the session is opened"))
            .collect();
        for used in [0, 3] {
            assert!(sessions.find(&ids[used], None, Instant::now()).is_some());
        }
        for expected in [[true, false, true, true], [true, false, false, true], [false, false, false, true]] {
            let new = sessions.open(Arc::new(Session::for_test()), &ada).expect("an idle session is evicted");
            assert!(sessions.find(&new, None, Instant::now()).is_some());
            assert_eq!([0, 1, 2, 3].map(|id| sessions.table().contains_key(&ids[id])), expected);
        }
    }

    #[test]
    fn fully_sent_streams_are_evicted_before_older_ones() {
        let sessions = Sessions::new(&HttpOptions::default());
        let session = open(&sessions, &peers().principal("ada"));
        // The first stream has an unsent message.
        for is_sent in [false, true, true] {
            let stream = session.open_stream(Outbox::for_test());
            stream.append(LINE);
            assert!(!is_sent || stream.after(0).is_some());
        }
        for remaining in [vec![1, 3], vec![1], vec![]] {
            sessions.evict_streams_down_to(sessions.memory.used() - 1);
            assert_eq!(session.state().streams.keys().copied().collect::<Vec<_>>(), remaining);
        }
    }
}
