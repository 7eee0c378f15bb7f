//! The sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod directory;
mod local;

pub(crate) use self::{
    directory::{SessionFuture, Sessions},
    local::{LocalSessions, new_id, too_many_sessions},
};

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    backend::{BackendError, BackendFuture},
    engine::{Outbox, RequestIds, Session, session_ended},
    error::Fault,
    stdx::Mutex,
    transport::http::sse::{
        events::{GENERAL, LocalEvents, Resumption, StreamEvents},
        stream::{EventStream, StreamMemory},
    },
};

/// The maximum number of streams that one session keeps for a client that may reconnect.
pub(crate) const MAX_STREAMS: usize = 32;

/// One session.
#[derive(Debug)]
pub(crate) struct HttpSession {
    pub(crate) session: Arc<Session>,
    memory: StreamMemory,
    state: Mutex<SessionState>,
    /// The number of [`ActiveSession`]s.
    active: AtomicUsize,
    /// Whether any request has used the session after `initialize`.
    pub(crate) is_used: AtomicBool,
    /// The streams, if other processes share them.
    shared: Option<Box<dyn SharedStreams>>,
}

#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) last_used: Instant,
    next_stream: u64,
    pub(crate) streams: BTreeMap<u64, Arc<EventStream>>,
}

/// A complete stream that no response carries, and the session it belongs to.
pub(crate) struct AbandonedStream<'a> {
    session: &'a HttpSession,
    id: u64,
    pub(crate) has_unsent: bool,
    pub(crate) opened: Instant,
}

/// A session that is not idle: held by its requests in progress and its open responses.
#[derive(Debug)]
pub(crate) struct ActiveSession {
    session: Arc<HttpSession>,
    /// The time at which the request or response ended. If not set, it ends when this value is dropped.
    pub(crate) end: Option<Instant>,
}

/// The streams of a session that several processes share. `cluster` implements it.
pub(crate) trait SharedStreams: std::fmt::Debug + Send + Sync {
    /// Opens a stream for the responses that an outbox will receive. `lines` contains the messages so far. The messages
    /// that wait for the backend count towards `memory`.
    fn open(&self, calls: StreamCalls, outbox: Arc<Outbox>, lines: Vec<u8>, memory: StreamMemory) -> StreamEvents;

    /// Resumes a stream after an event, which is the id of the stream and a position, or opens the stream for messages
    /// that belong to no request. Any other response that carries the stream ends.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails, or takes too long for all operations together.
    fn resume(&self, event: Option<(u64, u64)>) -> BackendFuture<'_, Resumption>;

    /// Deletes what this process has stored for the session, which has ended for all processes.
    fn session_ended(&self);
}

/// The requests whose responses a shared stream carries.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct StreamCalls {
    /// The ids, as JSON. The size of a message limits them.
    pub(crate) ids: Vec<String>,
    /// Whether the client has sent them as a batch, so that one array carries all responses.
    pub(crate) is_batch: bool,
}

impl HttpSession {
    pub(crate) fn new(session: Arc<Session>, memory: StreamMemory, shared: Option<Box<dyn SharedStreams>>) -> Self {
        let state = SessionState { last_used: Instant::now(), next_stream: 1, streams: BTreeMap::new() };
        memory.watch(&session.outbox);
        Self {
            session,
            memory,
            state: Mutex::new(state),
            active: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            shared,
        }
    }

    /// Fails the session's calls and ends its streams.
    pub(crate) fn end(&self) {
        self.session.end();
        let streams = std::mem::take(&mut self.state().streams);
        // The state is unlocked before the streams are dropped.
        drop(streams);
    }

    /// Ends the session in this process because the process shuts down. Other processes may share the session, so the
    /// error of its calls names the shutdown and not the end of the session.
    pub(crate) fn shut_down(&self) {
        self.session.in_flight.fail_all(&Fault::shutting_down());
        self.end();
    }

    /// Deletes what this process has stored for other processes. They have been told that the session has ended.
    pub(crate) fn ended_everywhere(&self) {
        if let Some(shared) = &self.shared {
            shared.session_ended();
        }
    }

    /// Fails the calls that a request has started if another request has ended the session in the meantime.
    pub(crate) fn fail_if_ended(&self) {
        if self.session.has_ended() {
            self.session.in_flight.fail_all(&session_ended());
        }
    }

    pub(crate) fn activate(self: &Arc<Self>) -> ActiveSession {
        self.active.fetch_add(1, Ordering::AcqRel);
        ActiveSession { session: Arc::clone(self), end: None }
    }

    /// Returns the requests whose responses a stream is going to carry, if other processes must know them.
    pub(crate) fn stream_calls(&self, ids: &RequestIds, is_batch: bool) -> StreamCalls {
        match &self.shared {
            Some(_) => StreamCalls { ids: ids.iter().map(|id| id.as_json().to_owned()).collect(), is_batch },
            None => StreamCalls::default(),
        }
    }

    /// Opens a stream for the responses that an outbox will receive. `lines` contains the messages so far, and `calls`
    /// the requests if other processes share the session.
    pub(crate) fn open_stream(&self, outbox: Arc<Outbox>, calls: StreamCalls, lines: Vec<u8>) -> StreamEvents {
        if let Some(shared) = &self.shared {
            return shared.open(calls, outbox, lines, self.memory.clone());
        }
        let events = self.add_stream(outbox);
        events.stream.append(&lines);
        Box::new(events)
    }

    /// Resumes a stream after an event, which is the id of the stream and a number, or opens the stream for messages that
    /// belong to no request. Any other response that carries the stream ends.
    ///
    /// # Errors
    ///
    /// Fails if other processes share the session, and the backend fails or takes too long.
    pub(crate) async fn resume(&self, event: Option<(u64, u64)>) -> Result<Resumption, BackendError> {
        if let Some(shared) = &self.shared {
            return shared.resume(event).await;
        }
        let mut state = self.state();
        let Some((id, at)) = event else {
            let new = || Arc::new(EventStream::new(GENERAL, Arc::clone(&self.session.outbox), false, &self.memory));
            // If the session has ended in the meantime, its outbox is closed, which ends the stream.
            let stream = state.streams.entry(GENERAL).or_insert_with(new);
            // Messages that no response has carried are still pending.
            return Ok(Resumption::Events(Box::new(LocalEvents::new(stream, stream.written()))));
        };
        Ok(match state.streams.get(&id).filter(|stream| at <= stream.last()) {
            Some(stream) if stream.is_over() && at == stream.last() => Resumption::Complete,
            Some(stream) => Resumption::Events(Box::new(LocalEvents::new(stream, at))),
            None => Resumption::Unknown,
        })
    }

    /// Adds a stream of this process. Drops the oldest stream, preferably one that is over, if the session has too many.
    pub(crate) fn add_stream(&self, outbox: Arc<Outbox>) -> LocalEvents {
        let mut state = self.state();
        let id = state.next_stream;
        state.next_stream += 1;
        let stream = Arc::new(EventStream::new(id, outbox, true, &self.memory));
        let events = LocalEvents::new(&stream, 0);
        state.streams.insert(id, stream);
        if state.streams.len() > MAX_STREAMS {
            let over = state.streams.iter().find(|(id, stream)| **id != GENERAL && stream.is_over()).map(|(id, _)| *id);
            let oldest = over.or_else(|| state.streams.keys().copied().find(|id| *id != GENERAL));
            oldest.and_then(|id| state.streams.remove(&id));
        }
        events
    }

    pub(crate) fn abandoned_streams(&self) -> Vec<AbandonedStream<'_>> {
        let state = self.state();
        let abandoned = state.streams.iter().filter(|(_, stream)| stream.is_abandoned());
        let describe = |(id, stream): (&u64, &Arc<EventStream>)| AbandonedStream {
            session: self,
            id: *id,
            has_unsent: stream.has_unsent(),
            opened: stream.opened,
        };
        abandoned.map(describe).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0 && self.session.in_flight.count() == 0
    }

    /// Returns whether the session has ended, or has been idle for `idle_timeout`.
    pub(crate) fn is_over(&self, idle_timeout: Duration, now: Instant) -> bool {
        let is_expired = || self.is_idle() && now.saturating_duration_since(self.state().last_used) > idle_timeout;
        self.session.has_ended() || is_expired()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl AbandonedStream<'_> {
    /// Removes the stream unless a client has resumed it in the meantime. Returns whether it was removed.
    pub(crate) fn evict(&self) -> bool {
        let mut state = self.session.state();
        let is_still_abandoned = state.streams.get(&self.id).is_some_and(|stream| stream.is_abandoned());
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
        let end = self.end.unwrap_or_else(Instant::now);
        let mut state = self.state();
        state.last_used = state.last_used.max(end);
        drop(state);
        self.session.active.fetch_sub(1, Ordering::AcqRel);
    }
}
