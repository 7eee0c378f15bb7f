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

use super::stream::{Stream, logs_are_full};
use crate::{
    engine::{Outbox, Session},
    random,
};

/// The most streams of one session whose messages are kept for a client that comes back.
const STREAMS: usize = 32;

/// Every session of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<HashMap<Arc<str>, Arc<HttpSession>>>,
    most: usize,
    idle: Duration,
}

/// One session.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Arc<Session>,
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

/// Holds off the end of a session.
#[derive(Debug)]
pub(super) struct Busy(Arc<HttpSession>);

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { table: Mutex::default(), most, idle }
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
        table.insert(Arc::clone(&id), Arc::new(HttpSession::new(session)));
        Some(id)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<HttpSession>> {
        let mut table = self.table();
        let session = table.get(id)?;
        if session.is_idle_for(self.idle, Instant::now()) {
            table.remove(id);
            return None;
        }
        session.touch();
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
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.table().retain(|_, session| !session.is_idle_for(self.idle, now));
    }

    /// Ends every session.
    pub(super) fn close_all(&self) {
        for session in std::mem::take(&mut *self.table()).into_values() {
            session.end();
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<HttpSession>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpSession {
    fn new(session: Arc<Session>) -> Self {
        let state = State { last_used: Instant::now(), next_stream: 1, streams: BTreeMap::new() };
        Self { session, state: Mutex::new(state), busy: AtomicUsize::new(0) }
    }

    /// Drops its calls, and ends its streams.
    fn end(&self) {
        self.session.flights.cancel_all();
        let streams = std::mem::take(&mut self.state().streams);
        streams.values().for_each(|stream| stream.end());
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    /// Opens a stream for the answers that come to an outbox.
    pub(super) fn open_stream(&self, outbox: Arc<Outbox>) -> Arc<Stream> {
        let mut state = self.state();
        let id = state.next_stream;
        state.next_stream += 1;
        let stream = Arc::new(Stream::new(id, outbox, true));
        state.streams.insert(id, Arc::clone(&stream));
        if logs_are_full() {
            state.streams.retain(|id, stream| *id == 0 || !stream.is_over());
        }
        if state.streams.len() > STREAMS {
            let over = state.streams.iter().find(|(id, stream)| **id != 0 && stream.is_over()).map(|(id, _)| *id);
            let oldest = over.or_else(|| state.streams.keys().copied().find(|id| *id != 0));
            oldest.and_then(|id| state.streams.remove(&id));
        }
        stream
    }

    /// The stream for messages that belong to no request.
    pub(super) fn standing_stream(&self) -> Arc<Stream> {
        let new = || Arc::new(Stream::new(0, Arc::clone(&self.session.outbox), false));
        Arc::clone(self.state().streams.entry(0).or_insert_with(new))
    }

    pub(super) fn stream(&self, id: u64) -> Option<Arc<Stream>> {
        self.state().streams.get(&id).map(Arc::clone)
    }

    fn touch(&self) {
        self.state().last_used = Instant::now();
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0 && self.session.flights.count() == 0
    }

    fn is_idle_for(&self, time: Duration, now: Instant) -> bool {
        self.is_idle() && now.saturating_duration_since(self.state().last_used) > time
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes an id that nobody can guess: 192 random bits, in visible ASCII.
pub(super) fn new_id() -> Option<Arc<str>> {
    random::id().map(Into::into)
}
