//! What a connection shares with the calls that outlive their message: the table of calls in flight and the outbox.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
};

use tokio::task::AbortHandle;

use super::batch::Batch;
use crate::{
    handler::{Context, Peer},
    jsonrpc::Id,
    model::Level,
};

/// The bytes of notifications that wait for a peer before more of them are dropped.
const UNREAD_NOTIFICATIONS: usize = 1 << 20;

pub(crate) struct Shared {
    state: Mutex<State>,
    in_flight: AtomicUsize,
    /// The session's log level, as an index into [`Level::ALL`].
    level: AtomicU8,
}

struct State {
    flights: HashMap<Id<'static>, Flight>,
    /// Finished lines that wait for the transport.
    out: Vec<u8>,
    waker: Option<Waker>,
}

/// A call in flight.
pub(super) struct Flight {
    pub(super) abort: AbortHandle,
    pub(super) context: Option<Arc<Context>>,
    pub(super) sink: Sink,
}

/// Where the response of a call goes.
#[derive(Clone)]
pub(super) enum Sink {
    /// Out, as a line of its own.
    Line,
    /// Into the response of its batch.
    Batch(Arc<Batch>),
}

impl Shared {
    pub(super) fn new() -> Self {
        let state = State { flights: HashMap::new(), out: Vec::new(), waker: None };
        Self { state: Mutex::new(state), in_flight: AtomicUsize::new(0), level: AtomicU8::new(Level::Info as u8) }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(super) fn is_in_flight(&self, id: &Id<'_>) -> bool {
        self.in_flight() > 0 && self.state().flights.contains_key(id.as_json())
    }

    /// Starts a call and enters it into the table before it can end.
    pub(super) fn take_off(&self, id: Id<'static>, start: impl FnOnce() -> Flight) {
        let mut state = self.state();
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        state.flights.insert(id, start());
    }

    /// Ends a call with its response, unless it was cancelled: whoever takes a call out of the table answers it.
    pub(super) fn land(&self, id: &Id<'static>, response: &[u8]) {
        let mut state = self.state();
        let Some(flight) = self.remove(&mut state, id) else { return };
        match flight.sink {
            Sink::Line => {
                state.out.extend_from_slice(response);
                state.out.push(b'\n');
            }
            Sink::Batch(batch) => batch.push(response, &mut state.out),
        }
        state.wake();
    }

    /// Drops a call without an answer; false if there is none of this id.
    pub(super) fn cancel(&self, id: &Id<'_>) -> bool {
        let mut state = self.state();
        let Some(flight) = self.remove(&mut state, id) else { return false };
        flight.stop(&mut state.out);
        state.wake();
        true
    }

    /// Drops every call.
    pub(super) fn cancel_all(&self) {
        let mut state = self.state();
        let flights = std::mem::take(&mut state.flights);
        self.in_flight.store(0, Ordering::Release);
        for flight in flights.into_values() {
            flight.stop(&mut state.out);
        }
        state.wake();
    }

    fn remove(&self, state: &mut State, id: &Id<'_>) -> Option<Flight> {
        let flight = state.flights.remove(id.as_json())?;
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        Some(flight)
    }

    /// Moves what waits into the transport's buffer; true if there was anything.
    pub(super) fn drain(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        if state.out.is_empty() {
            return false;
        }
        match into.is_empty() {
            true => std::mem::swap(into, &mut state.out),
            false => into.append(&mut state.out),
        }
        true
    }

    /// Waits until something waits for the transport, or the last call has landed.
    pub(super) fn poll_news(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut state = self.state();
        if !state.out.is_empty() {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Flight {
    fn stop(self, out: &mut Vec<u8>) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
        if let Sink::Batch(batch) = self.sink {
            batch.skip(out);
        }
    }
}

impl Peer for Shared {
    fn notify(&self, message: &[u8]) -> bool {
        let mut state = self.state();
        if state.out.len() + message.len() > UNREAD_NOTIFICATIONS {
            return false;
        }
        state.out.extend_from_slice(message);
        state.out.push(b'\n');
        state.wake();
        true
    }

    fn session_level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Acquire)).min(Level::ALL.len() - 1)]
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
