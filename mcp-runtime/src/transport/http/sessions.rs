//! The sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::stream::{Memory, Stream};
use crate::{
    engine::{Outbox, Session},
    random,
};

/// The most streams of one session whose messages are kept for a client that comes back.
const STREAMS: usize = 32;

/// The time between two looks for streams to forget, where there were not enough.
const LOOK: Duration = Duration::from_secs(1);

/// By id. The ids are random, so that nobody can choose them to collide.
type Table = HashMap<Arc<str>, Arc<HttpSession>, foldhash::fast::RandomState>;

/// Every session of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<Table>,
    most: usize,
    idle: Duration,
    memory: Memory,
    /// When it was of no use to look for streams to forget, and how much memory they took.
    in_vain: Mutex<Option<(Instant, usize)>>,
}

/// One session.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Arc<Session>,
    memory: Memory,
    state: Mutex<State>,
    /// Requests in work and open streams.
    busy: AtomicUsize,
}

#[derive(Debug)]
struct State {
    last_used: Instant,
    next_stream: u64,
    streams: BTreeMap<u64, Arc<Stream>>,
}

/// A stream of a session that nobody reads, and that nothing more comes to.
struct Abandoned<'a> {
    session: &'a HttpSession,
    id: u64,
    has_news: bool,
    opened: Instant,
}

/// Holds off the end of a session.
#[derive(Debug)]
pub(super) struct Busy {
    session: Arc<HttpSession>,
    /// When it ends, if that is known before it is dropped.
    pub(super) end: Option<Instant>,
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { table: Mutex::default(), most, idle, memory: Memory::default(), in_vain: Mutex::default() }
    }

    /// What the streams of every session, and all others of the server, keep.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Enters a session and gives its id; none if there are too many, and none of them is idle.
    pub(super) fn open(&self, session: Arc<Session>) -> Option<Arc<str>> {
        let mut table = self.table();
        if table.len() >= self.most {
            let now = Instant::now();
            table.retain(|_, session| !session.is_idle_for(self.idle, now));
        }
        if table.len() >= self.most {
            let idle = table.iter().filter(|(_, session)| session.is_idle());
            let mut idle: Vec<_> = idle.map(|(id, session)| (session.state().last_used, Arc::clone(id))).collect();
            idle.sort_unstable();
            // Several at once, so that the next ones need not look again.
            idle.truncate((self.most / 64).max(1));
            tracing::warn!(ended = idle.len(), "there are too many sessions: those that were idle longest are ended");
            for (_, id) in idle {
                table.remove(&id);
            }
        }
        if table.len() >= self.most {
            return None;
        }
        let id = new_id()?;
        table.insert(Arc::clone(&id), Arc::new(HttpSession::new(session, self.memory.clone())));
        Some(id)
    }

    pub(super) fn find(&self, id: &str, now: Instant) -> Option<Arc<HttpSession>> {
        let mut table = self.table();
        let session = table.get(id)?;
        if !session.use_at(now, self.idle) {
            table.remove(id);
            return None;
        }
        Some(Arc::clone(session))
    }

    /// Ends a session: its calls are dropped, its streams end.
    pub(super) fn close(&self, id: &str) -> bool {
        let session = self.table().remove(id);
        session.is_some_and(|session| {
            session.end();
            true
        })
    }

    /// Ends the sessions that were idle too long.
    pub(super) fn sweep(&self, now: Instant) {
        self.table().retain(|_, session| !session.is_idle_for(self.idle, now));
    }

    /// Forgets streams that nobody reads and nothing more comes to, if all streams keep too much: first those whose clients had
    /// everything, and of the others the oldest.
    pub(super) fn relieve(&self) {
        if !self.memory.is_full() {
            return;
        }
        let mut in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        // Every session is looked at, so it should not be for nothing again and again.
        let step = self.memory.most / 8;
        let is_vain = |(when, taken): (Instant, usize)| when.elapsed() < LOOK && self.memory.taken() < taken + step;
        if !self.memory.is_full() || in_vain.is_some_and(is_vain) {
            return;
        }
        let sessions: Vec<_> = self.table().values().map(Arc::clone).collect();
        let mut abandoned: Vec<_> = sessions.iter().flat_map(|session| session.abandoned_streams()).collect();
        abandoned.sort_unstable_by_key(|stream| (stream.has_news, stream.opened));
        let mut lost = 0;
        for stream in abandoned {
            if self.memory.taken() <= self.memory.most - step {
                break;
            }
            lost += usize::from(stream.forget() && stream.has_news);
        }
        if lost > 0 {
            tracing::warn!(lost, "answers are forgotten: too many wait for clients that may never come back");
        }
        *in_vain = self.memory.is_full().then(|| (Instant::now(), self.memory.taken()));
    }

    /// Ends every session.
    pub(super) fn close_all(&self) {
        let sessions = std::mem::take(&mut *self.table());
        // Their calls look at the table when they end.
        sessions.into_values().for_each(|session| session.end());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpSession {
    fn new(session: Arc<Session>, memory: Memory) -> Self {
        let state = State { last_used: Instant::now(), next_stream: 1, streams: BTreeMap::new() };
        Self { session, memory, state: Mutex::new(state), busy: AtomicUsize::new(0) }
    }

    /// Drops its calls, and ends its streams.
    fn end(&self) {
        self.session.in_flight.cancel_all();
        let streams = std::mem::take(&mut self.state().streams);
        streams.values().for_each(|stream| stream.end());
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy { session: Arc::clone(self), end: None }
    }

    /// Opens a stream for the answers that come to an outbox.
    pub(super) fn open_stream(&self, outbox: Arc<Outbox>) -> Arc<Stream> {
        let mut state = self.state();
        let id = state.next_stream;
        state.next_stream += 1;
        let stream = Arc::new(Stream::new(id, outbox, true, &self.memory));
        state.streams.insert(id, Arc::clone(&stream));
        if state.streams.len() > STREAMS {
            let over = state.streams.iter().find(|(id, stream)| **id != 0 && stream.is_over()).map(|(id, _)| *id);
            let oldest = over.or_else(|| state.streams.keys().copied().find(|id| *id != 0));
            oldest.and_then(|id| state.streams.remove(&id));
        }
        stream
    }

    /// The stream for messages that belong to no request.
    pub(super) fn standing_stream(&self) -> Arc<Stream> {
        let new = || Arc::new(Stream::new(0, Arc::clone(&self.session.outbox), false, &self.memory));
        Arc::clone(self.state().streams.entry(0).or_insert_with(new))
    }

    pub(super) fn stream(&self, id: u64) -> Option<Arc<Stream>> {
        self.state().streams.get(&id).map(Arc::clone)
    }

    fn abandoned_streams(&self) -> Vec<Abandoned<'_>> {
        let state = self.state();
        let abandoned = state.streams.iter().filter(|(_, stream)| is_abandoned(stream));
        let describe = |(id, stream): (&u64, &Arc<Stream>)| {
            let (has_news, opened) = (stream.has_news(), stream.opened);
            Abandoned { session: self, id: *id, has_news, opened }
        };
        abandoned.map(describe).collect()
    }

    fn touch(&self, now: Instant) {
        let mut state = self.state();
        state.last_used = now.max(state.last_used);
    }

    /// Uses it now; false if it has been idle for so long that it is over.
    fn use_at(&self, now: Instant, idle: Duration) -> bool {
        let mut state = self.state();
        let is_over = now.saturating_duration_since(state.last_used) > idle && self.is_idle();
        if !is_over {
            state.last_used = now.max(state.last_used);
        }
        !is_over
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0 && self.session.in_flight.count() == 0
    }

    fn is_idle_for(&self, time: Duration, now: Instant) -> bool {
        self.is_idle() && now.saturating_duration_since(self.state().last_used) > time
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether a stream of a table is complete, and no response carries it or is about to.
fn is_abandoned(stream: &Arc<Stream>) -> bool {
    Arc::strong_count(stream) == 1 && stream.is_complete()
}

impl Abandoned<'_> {
    /// Forgets it, unless somebody has come back for it; true if it was forgotten.
    fn forget(&self) -> bool {
        let mut state = self.session.state();
        let is_still = state.streams.get(&self.id).is_some_and(is_abandoned);
        let forgotten = if is_still { state.streams.remove(&self.id) } else { None };
        drop(state);
        forgotten.is_some()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.session.touch(self.end.unwrap_or_else(Instant::now));
        self.session.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes an id that nobody can guess: 192 random bits, in visible ASCII.
pub(super) fn new_id() -> Option<Arc<str>> {
    random::id().map(Into::into)
}
