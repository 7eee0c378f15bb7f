//! The sessions of this process, and what is evicted when there are too many or their streams keep too much.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, hash_map},
    sync::{Arc, MutexGuard, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{AbandonedStream, ActiveSession, HttpSession, SharedStreams};
use crate::{
    counters::Counter,
    engine::Session,
    error::Fault,
    random,
    stdx::Mutex,
    transport::http::{
        options::HttpOptions,
        peers::{Peer, PeerPermit, Pool, Resource},
        sse::stream::StreamMemory,
    },
};

/// The sessions by id. The ids are random, so clients cannot provoke collisions and a fast hasher is safe.
type Table = HashMap<Arc<str>, Entry, foldhash::fast::RandomState>;

/// The number of tables, so that the requests of different sessions rarely lock the same one.
const TABLES: usize = 16;

/// The minimum time between two scans for streams to evict, after a scan that did not free enough memory.
const FRUITLESS_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// The sessions that this process knows.
#[derive(Debug)]
pub(crate) struct LocalSessions {
    /// Unlocked before a session that was removed is dropped, which ends it and may run code of the author.
    tables: [Mutex<Table>; TABLES],
    /// One permit for each session.
    pool: Pool,
    idle_timeout: Duration,
    /// The memory that all streams of the server share, including streams without a session.
    pub(crate) memory: StreamMemory,
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

impl LocalSessions {
    pub(crate) fn new(options: &HttpOptions) -> Self {
        Self {
            tables: Default::default(),
            pool: Pool::new(Resource::Sessions, options.max_sessions, options.max_peer_share),
            idle_timeout: options.session_idle,
            memory: StreamMemory::default(),
            fruitless_scan: Mutex::default(),
        }
    }

    /// Returns the table of a session. The last character of an id is random.
    fn table(&self, id: &str) -> MutexGuard<'_, Table> {
        self.tables[id.bytes().last().unwrap_or_default() as usize % TABLES].lock()
    }

    /// Returns a value for each session.
    fn map_all<T>(&self, value: impl Fn((&Arc<str>, &Entry)) -> T) -> Vec<T> {
        self.tables.iter().flat_map(|table| table.lock().iter().map(&value).collect::<Vec<_>>()).collect()
    }

    /// Adds a session of a peer and returns its id. If there are too many sessions, evicts idle sessions. Returns
    /// `None` if none is idle, or if the operating system provides no random bytes.
    pub(crate) fn open(&self, session: Arc<Session>, peer: &Arc<Peer>) -> Option<Arc<str>> {
        let permit = self.reserve(peer)?;
        let id = new_id()?;
        session.set_id(&id);
        self.insert(&id, &session, permit, None);
        Some(id)
    }

    /// Adds a session with a permit for it, and with its streams if other replicas share them. Does nothing if there is a
    /// session with this id.
    pub(crate) fn insert(
        &self,
        id: &Arc<str>,
        session: &Arc<Session>,
        permit: PeerPermit,
        shared: Option<Box<dyn SharedStreams>>,
    ) {
        let session = HttpSession::new(Arc::clone(session), self.memory.of_peer(permit.peer()), shared);
        let entry = Entry { session: Arc::new(session), permit };
        // An entry that is not added must be dropped after the table is unlocked.
        let _unused = match self.table(id).entry(Arc::clone(id)) {
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(entry);
                None
            }
            hash_map::Entry::Occupied(_) => Some(entry),
        };
    }

    /// Returns the session with this id, without checking the principal.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.table(id).get(id).map(|entry| Arc::clone(&entry.session))
    }

    /// Returns all sessions with their ids.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<HttpSession>)> {
        self.map_all(|(id, entry)| (Arc::clone(id), Arc::clone(&entry.session)))
    }

    /// Returns a permit for a session of a peer. If there are too many sessions, evicts idle sessions. Returns `None`
    /// if none is idle.
    pub(crate) fn reserve(&self, peer: &Arc<Peer>) -> Option<PeerPermit> {
        self.pool
            .try_acquire(peer, 1)
            .or_else(|| {
                self.sweep(Instant::now());
                self.pool.try_acquire(peer, 1)
            })
            .or_else(|| {
                loop {
                    // Counted while the tables are locked, so that no other request evicts what is to be evicted here.
                    let mut tables = self.tables.each_ref().map(Mutex::lock);
                    // The session of another peer is of no use to a peer that is at its share. Its share shrinks when others
                    // open sessions, so it may have to lose several.
                    let (used, free) = (peer.used(Resource::Sessions), self.pool.free());
                    let excess = (used + 1).saturating_sub(self.pool.share.of(used + free));
                    let is_at_share = free > 0 || self.pool.share.of(used + 1) <= used;
                    // None are evicted if another request has made room meanwhile.
                    let evicted = (free == 0 || excess > 0).then(|| {
                        let (victim, min) = if is_at_share { (Some(peer), excess) } else { (None, 1) };
                        evict_idle(&mut tables, victim, min)
                    });
                    let permit = self.pool.try_acquire(peer, 1);
                    drop(tables);
                    // Another request may have taken the place.
                    if permit.is_some() || evicted.is_some_and(|evicted| evicted.is_empty()) {
                        return permit;
                    }
                }
            })
    }

    /// Returns the session with this id and keeps it from becoming idle. Returns `None` if another principal opened it,
    /// or if it has expired or ended, in which case it is removed.
    pub(crate) fn find(&self, id: &str, principal: Option<&str>, now: Instant) -> Option<ActiveSession> {
        let mut table = self.table(id);
        // For other principals the session does not exist, so their requests must not keep it from expiring either.
        let found = table.get(id).map(|entry| &entry.session);
        let session = found.filter(|found| found.session.info.principal.as_deref() == principal)?;
        if session.is_over(self.idle_timeout, now) {
            let removed = table.remove(id);
            drop(table);
            drop(removed);
            return None;
        }
        session.session.record_sign_of_life();
        session.is_used.store(true, Ordering::Relaxed);
        // Activated while the table is locked, so that no other thread evicts it as idle.
        Some(HttpSession::activate(session))
    }

    /// Ends a session: fails its calls and ends its streams.
    pub(crate) fn close(&self, id: &str) {
        let removed = self.table(id).remove(id);
        if let Some(Entry { session, .. }) = removed {
            session.end();
        }
    }

    /// Ends every session, because the process shuts down.
    pub(crate) fn close_all(&self) {
        for table in &self.tables {
            let sessions = std::mem::take(&mut *table.lock());
            // The table must be unlocked here: cancelled calls access it as they end.
            sessions.into_values().for_each(|entry| entry.session.shut_down());
        }
    }

    /// Removes expired sessions, which ends them: an idle session has no calls to cancel, and no response carries its
    /// streams. Also removes sessions that have ended because their clients no longer respond.
    pub(crate) fn sweep(&self, now: Instant) {
        let is_over = |_: &Arc<str>, entry: &mut Entry| entry.session.is_over(self.idle_timeout, now);
        for table in &self.tables {
            let removed: Vec<_> = table.lock().extract_if(is_over).collect();
            drop(removed);
        }
    }

    /// Evicts abandoned streams if the memory of all streams is full: streams of the peer whose streams keep the most,
    /// first the fully sent streams, then the oldest.
    ///
    /// A scan visits every session. After a scan that did not free enough, the next one runs only when
    /// [`FRUITLESS_SCAN_INTERVAL`] has passed or memory use has grown considerably.
    pub(crate) fn evict_streams(&self) {
        if !self.memory.is_full() {
            return;
        }
        let mut fruitless_scan = self.fruitless_scan.lock();
        let step = self.memory.max / 8;
        let is_recent =
            |scan: FruitlessScan| scan.at.elapsed() < FRUITLESS_SCAN_INTERVAL && self.memory.used() < scan.used + step;
        if !self.memory.is_full() || fruitless_scan.is_some_and(is_recent) {
            return;
        }
        self.evict_streams_down_to(self.memory.max - step);
        *fruitless_scan = self.memory.is_full().then(|| FruitlessScan { at: Instant::now(), used: self.memory.used() });
    }

    /// Evicts abandoned streams until at most `target` bytes are in use, or none is left.
    fn evict_streams_down_to(&self, target: usize) {
        let sessions = self.map_all(|(_, entry)| (Arc::clone(&entry.session), Arc::clone(entry.permit.peer())));
        let mut peers: HashMap<*const Peer, (&Peer, Vec<AbandonedStream<'_>>)> = HashMap::new();
        for (session, peer) in &sessions {
            let (_, abandoned) = peers.entry(Arc::as_ptr(peer)).or_insert_with(|| (peer, Vec::new()));
            abandoned.extend(session.abandoned_streams());
        }
        let mut peers: Vec<_> = peers.into_values().collect();
        // In the reverse order of their eviction.
        let order = |stream: &AbandonedStream<'_>| Reverse((stream.has_unsent, stream.opened));
        peers.iter_mut().for_each(|(_, abandoned)| abandoned.sort_unstable_by_key(order));
        let kept = |peer: &Peer| peer.stream_bytes.load(Ordering::Relaxed);
        let mut by_kept: BinaryHeap<_> = peers.iter().enumerate().map(|(at, (peer, _))| (kept(peer), at)).collect();
        let mut lost = 0;
        while self.memory.used() > target
            && let Some((_, at)) = by_kept.pop()
        {
            let (peer, abandoned) = &mut peers[at];
            // A peer without abandoned streams is not considered again.
            let Some(stream) = abandoned.pop() else { continue };
            lost += usize::from(stream.evict() && stream.has_unsent);
            by_kept.push((kept(peer), at));
        }
        if lost > 0 {
            tracing::warn!(lost, "unsent responses discarded: too much data is kept for clients that may reconnect");
        }
    }
}

/// Evicts idle sessions of `peer`, or of all peers, repeatedly from the peer with the most sessions. Sessions that were
/// never used go first, then those that have been idle longest. Evicts 1/64 of the sessions, so that the next new
/// sessions need no scan, and at least `min`. Evicts nothing if fewer than `min` are idle. The evicted sessions no longer
/// count, and must be dropped after the tables are unlocked.
fn evict_idle(tables: &mut [MutexGuard<'_, Table>], peer: Option<&Arc<Peer>>, min: usize) -> Vec<Arc<HttpSession>> {
    let mut peers: HashMap<*const Peer, (usize, Vec<_>)> = HashMap::new();
    let is_chosen = |entry: &Entry| peer.is_none_or(|peer| Arc::ptr_eq(entry.permit.peer(), peer));
    let mut count = 0;
    for (id, entry) in tables.iter().flat_map(|table| table.iter()).filter(|(_, entry)| is_chosen(entry)) {
        count += 1;
        if entry.session.is_idle() {
            let peer = entry.permit.peer();
            let key = (entry.session.is_used.load(Ordering::Relaxed), entry.session.state().last_used);
            let (_, idle) =
                peers.entry(Arc::as_ptr(peer)).or_insert_with(|| (peer.used(Resource::Sessions), Vec::new()));
            idle.push(Reverse((key, Arc::clone(id))));
        }
    }
    let mut peers: BinaryHeap<_> = peers
        .into_values()
        .map(|(used, mut idle)| {
            idle.sort_unstable();
            // The key of the next one decides between equal peers.
            (used, idle.last().cloned(), idle)
        })
        .collect();
    let mut evicted = Vec::new();
    if peers.iter().map(|(_, _, idle)| idle.len()).sum::<usize>() < min {
        return evicted;
    }
    while evicted.len() < (count / 64).max(min)
        && let Some((used, _, mut idle)) = peers.pop()
    {
        let Some(Reverse((_, id))) = idle.pop() else { continue };
        evicted.extend(tables.iter_mut().find_map(|table| table.remove(&id)).map(|entry| entry.session));
        peers.push((used - 1, idle.last().cloned(), idle));
    }
    if !evicted.is_empty() {
        tracing::warn!(evicted = evicted.len(), "too many sessions: evicting idle ones");
    }
    evicted
}

/// Returns a random session id in visible ASCII, or `None` if the operating system provides no random bytes.
pub(crate) fn new_id() -> Option<Arc<str>> {
    random::id().map(Into::into)
}

/// Returns the error if there is no room for another session of a peer.
pub(crate) fn too_many_sessions() -> Fault {
    Fault::refused(Counter::RefusedSessions, "too many sessions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::Outbox,
        transport::http::peers::{Peers, Share},
    };

    const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\"}\n";

    /// Report progress, and return at once.
    #[cfg(feature = "cluster")]
    #[crate::tool]
    fn reports_at_once(ctx: &crate::Context) {
        ctx.progress(1, 1, "whole");
    }

    fn peers() -> Arc<Peers> {
        Arc::new(Peers::new(Share::new(0.75)))
    }

    fn open(sessions: &LocalSessions, peer: &Arc<Peer>) -> Arc<HttpSession> {
        let id = sessions.open(Arc::new(Session::for_test()), peer).expect("the session is opened");
        Arc::clone(&sessions.table(&id)[&id].session)
    }

    /// A message of one byte more than a quarter of the memory.
    fn quarter(sessions: &LocalSessions) -> Vec<u8> {
        let mut line = vec![b'x'; sessions.memory.max / 4 + 1];
        line.push(b'\n');
        line
    }

    #[test]
    fn the_excess_of_a_peer_evicts_its_own_streams() {
        let sessions = LocalSessions::new(&HttpOptions::default());
        let peers = peers();
        let (ada, eve) = (open(&sessions, &peers.principal("ada")), open(&sessions, &peers.principal("eve")));
        // The stream of the other peer is the oldest, and has been sent.
        let events = ada.add_stream(Outbox::for_test());
        events.stream.append(LINE);
        assert!(events.stream.after(0).is_some());
        drop(events);
        for _ in 0..4 {
            eve.add_stream(Outbox::for_test()).stream.append(&quarter(&sessions));
        }
        sessions.evict_streams();
        assert_eq!((ada.state().streams.len(), eve.state().streams.len()), (1, 3));
    }

    #[test]
    fn sessions_beyond_a_limit_evict_idle_ones_of_the_largest_peer() {
        let sessions = LocalSessions::new(&HttpOptions::default().max_sessions(8));
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

    /// A scan visits every session, so it makes room for more than one, also if each peer has only a few.
    #[test]
    fn an_eviction_makes_room_for_several_sessions() {
        let (max, peers) = (640, peers());
        let sessions = LocalSessions::new(&HttpOptions::default().max_sessions(max).max_peer_share(1.0));
        let all: Vec<_> = (0..max).map(|number| peers.principal(&number.to_string())).collect();
        let ids: Vec<_> = all.iter().map(|peer| sessions.open(Arc::new(Session::for_test()), peer).unwrap()).collect();
        drop(open(&sessions, &peers.principal("new")));
        assert_eq!(sessions.pool.free(), max / 64 - 1);
        // The oldest ones of equal peers.
        let kept: Vec<_> = ids.iter().map(|id| sessions.table(id).contains_key(id)).collect();
        assert!(!kept[..max / 64].contains(&true) && !kept[max / 64..].contains(&false), "{kept:?}");
    }

    /// Several requests evict sessions at the same time, and take the place of each other.
    #[test]
    fn sessions_open_as_long_as_one_is_idle() {
        let (sessions, peers) = (LocalSessions::new(&HttpOptions::default().max_sessions(24)), peers());
        std::thread::scope(|scope| {
            for name in ["ada", "ada", "eve", "eve", "bob", "kim"] {
                let (sessions, peer) = (&sessions, peers.principal(name));
                scope.spawn(move || {
                    for _ in 0..1000 {
                        assert!(sessions.open(Arc::new(Session::for_test()), &peer).is_some());
                    }
                });
            }
        });
    }

    #[test]
    fn sessions_that_were_never_used_are_evicted_first() {
        let sessions = LocalSessions::new(&HttpOptions::default().max_sessions(4).max_peer_share(1.0));
        let ada = peers().principal("ada");
        // The first one was used before the next ones were opened.
        let ids = [true, false, false, true].map(|is_used| {
            let id = sessions.open(Arc::new(Session::for_test()), &ada).expect("the session is opened");
            assert!(!is_used || sessions.find(&id, None, Instant::now()).is_some());
            id
        });
        for expected in [[true, false, true, true], [true, false, false, true], [false, false, false, true]] {
            let new = sessions.open(Arc::new(Session::for_test()), &ada).expect("an idle session is evicted");
            assert!(sessions.find(&new, None, Instant::now()).is_some());
            assert_eq!([0, 1, 2, 3].map(|id| sessions.table(&ids[id]).contains_key(&ids[id])), expected);
        }
    }

    /// The peer with the most sessions loses none.
    #[test]
    fn expired_sessions_make_room_before_idle_ones() {
        let options = HttpOptions::default().max_sessions(3).max_peer_share(1.0).session_idle(Duration::ZERO);
        let (sessions, peers) = (LocalSessions::new(&options), peers());
        let [ada, eve, bob] = ["ada", "eve", "bob"].map(|name| peers.principal(name));
        for _ in 0..2 {
            let session = open(&sessions, &eve);
            // As if it was used later, so that it has not expired.
            session.state().last_used += Duration::from_secs(3600);
        }
        drop(open(&sessions, &ada));
        let opened = Instant::now();
        while Instant::now() <= opened {
            std::hint::spin_loop();
        }
        drop(open(&sessions, &bob));
        assert_eq!([&ada, &eve, &bob].map(|peer| peer.used(Resource::Sessions)), [0, 2, 1]);
    }

    #[test]
    fn fully_sent_streams_are_evicted_before_older_ones() {
        let sessions = LocalSessions::new(&HttpOptions::default());
        let session = open(&sessions, &peers().principal("ada"));
        // The first stream has an unsent message.
        for is_sent in [false, true, true] {
            let events = session.add_stream(Outbox::for_test());
            events.stream.append(LINE);
            assert!(!is_sent || events.stream.after(0).is_some());
        }
        for remaining in [vec![1, 3], vec![1], vec![]] {
            let used = sessions.memory.used();
            sessions.evict_streams_down_to(used);
            assert_eq!(sessions.memory.used(), used);
            sessions.evict_streams_down_to(used - 1);
            assert_eq!(session.state().streams.keys().copied().collect::<Vec<_>>(), remaining);
        }
        for _ in 0..3 {
            session.add_stream(Outbox::for_test()).stream.append(LINE);
        }
        sessions.evict_streams_down_to(0);
        assert!(session.state().streams.is_empty());
    }

    /// A scan visits every session, so one that has freed too little is not repeated for each message.
    #[cfg(feature = "cluster")]
    #[test]
    fn a_scan_in_vain_is_repeated_when_much_more_is_kept() {
        let sessions = LocalSessions::new(&HttpOptions::default());
        let max = sessions.memory.max;
        let mut kept = sessions.memory.count(max);
        for (more, is_scanned) in [(0, false), (1, true), (max / 8, false), (max / 8 + 1, true), (max / 4, false)] {
            kept.set(max + more);
            sessions.evict_streams();
            let scanned_at = sessions.fruitless_scan.lock().map(|scan| scan.used);
            assert_eq!(scanned_at == Some(max + more), is_scanned, "{more}");
        }
    }

    /// The call ends first, so only the conversion can evict.
    #[cfg(feature = "cluster")]
    #[tokio::test]
    async fn a_response_that_becomes_a_stream_evicts_streams() {
        use crate::{
            Revision, Server,
            testing::TestClient,
            transport::http::{HttpService, LegacySessions},
        };

        let built = Server::empty("test", "1.0.0").with::<reports_at_once>().build().unwrap();
        let endpoint = built.endpoint(HttpOptions::default());
        let sessions = endpoint.sessions().local();
        let session = open(sessions, &peers().principal("ada"));
        session.add_stream(Outbox::for_test()).stream.append(LINE);
        let _kept = sessions.memory.count(sessions.memory.max - sessions.memory.used());
        let service = HttpService::new(endpoint.clone(), LegacySessions::default());
        let mut client = TestClient::over_http(service, "/", Revision::V2026_07_28);
        let call = serde_json::json!({"name": "reports_at_once", "_meta": {"progressToken": 1}});
        client.request("tools/call", call).await.unwrap();
        assert!(session.state().streams.is_empty());
    }

    /// The client of a call may never fetch its response.
    #[cfg(feature = "cluster")]
    #[test]
    fn the_end_of_a_call_evicts_streams() {
        use crate::transport::http::limits::SharedLimits;

        let options = HttpOptions::default();
        let sessions = Arc::new(LocalSessions::new(&options));
        let limits = SharedLimits::for_test(&options, Arc::clone(&sessions));
        let ada = limits.peers.principal("ada");
        let session = open(&sessions, &ada);
        session.add_stream(Outbox::for_test()).stream.append(LINE);
        let call = limits.admit_call(&ada, None).expect("the call is admitted");
        let _kept = sessions.memory.count(sessions.memory.max);
        assert_eq!(session.state().streams.len(), 1);
        drop(call);
        assert!(session.state().streams.is_empty());
    }

    /// A client that reconnects finds the newest streams, and the one for messages outside of calls.
    #[tokio::test]
    async fn the_oldest_streams_of_a_session_are_dropped() {
        let sessions = LocalSessions::new(&HttpOptions::default());
        let session = open(&sessions, &peers().principal("ada"));
        drop(session.resume(None).await);
        let unread = Outbox::for_test();
        unread.push(LINE);
        for _ in 0..40 {
            drop(session.add_stream(Arc::clone(&unread)));
        }
        let kept: Vec<_> = session.state().streams.keys().copied().collect();
        assert_eq!(kept, std::iter::once(0).chain(10..41).collect::<Vec<_>>());
    }

    /// A client may resume a stream while an eviction is choosing what to evict.
    #[tokio::test]
    async fn a_stream_that_was_resumed_meanwhile_is_not_evicted() {
        let sessions = LocalSessions::new(&HttpOptions::default());
        let session = open(&sessions, &peers().principal("ada"));
        session.add_stream(Outbox::for_test()).stream.append(LINE);
        let chosen = session.abandoned_streams();
        let is_kept = || session.state().streams.contains_key(&1);
        let resumed = session.resume(Some((1, 0))).await;
        assert!(!chosen[0].evict() && is_kept());
        drop(resumed);
        assert!(chosen[0].evict() && !is_kept());
    }

    /// Random sessions of four peers: an eviction affects the peer with the most sessions, or the peer that is at its
    /// share; sessions in use stay; and a session that cannot be opened costs other peers nothing.
    #[test]
    fn evictions_are_fair() {
        for seed in 0..200_u64 {
            let (max, mut random) = (4 + seed as usize % 13, seed);
            let mut below = |limit: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % limit
            };
            let sessions = LocalSessions::new(&HttpOptions::default().max_sessions(max));
            let peers = peers();
            let peers = ["ada", "eve", "bob", "kim"].map(|name| peers.principal(name));
            // The sessions in the order of their last use, and the sessions that are in use.
            let mut idle: Vec<(usize, Arc<str>)> = Vec::new();
            let mut active: Vec<(usize, Arc<str>, ActiveSession)> = Vec::new();
            for step in 0..120 {
                if below(4) == 0 && !active.is_empty() {
                    let (peer, id, session) = active.remove(below(active.len()));
                    drop(session);
                    idle.push((peer, id));
                    continue;
                }
                let peer = below(peers.len());
                let used = |peer: usize| peers[peer].used(Resource::Sessions);
                let (free, before) = (sessions.pool.free(), [0, 1, 2, 3].map(used));
                let opened = sessions.open(Arc::new(Session::for_test()), &peers[peer]);
                let is_kept = |id: &Arc<str>| sessions.table(id).contains_key(id);
                assert!(active.iter().all(|(_, id, _)| is_kept(id)), "seed {seed}, step {step}: evicted while in use");
                let evicted: Vec<_> = idle.iter().filter(|(_, id)| !is_kept(id)).cloned().collect();
                // A peer that exceeds its share, which shrinks when others open sessions, gives up several of its own.
                assert!(evicted.len() <= 1 || evicted.iter().all(|(victim, _)| *victim == peer));
                for (at, (victim, id)) in evicted.iter().enumerate() {
                    let oldest = idle.iter().filter(|(of, _)| of == victim).nth(at).map(|(_, id)| id);
                    assert_eq!(Some(id), oldest, "seed {seed}, step {step}: not the one that was idle longest");
                    let is_largest = idle.iter().all(|(other, _)| before[*other] <= before[*victim]);
                    let is_needed = free == 0 && is_largest && opened.is_some();
                    assert!(
                        *victim == peer || is_needed,
                        "seed {seed}, step {step}: {before:?} {peer} evicts {victim}"
                    );
                }
                assert!(opened.is_some() || evicted.is_empty(), "seed {seed}, step {step}: evicted in vain");
                idle.retain(|(_, id)| is_kept(id));
                if let Some(id) = opened {
                    let session = sessions.find(&id, None, Instant::now()).expect("the session was opened");
                    active.push((peer, id, session));
                }
                let total: usize = [0, 1, 2, 3].map(used).iter().sum();
                assert_eq!(total, idle.len() + active.len(), "seed {seed}, step {step}");
            }
        }
    }
}
