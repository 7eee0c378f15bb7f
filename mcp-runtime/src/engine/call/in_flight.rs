//! The calls that outlive their message: whoever takes one out of the table decides about its answer.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::task::AbortHandle;

use super::batch::Sink;
use crate::{
    engine::{outbox::Outbox, request::source::Permit, subscriptions::listener::Listener},
    handler::Context,
    jsonrpc::Id,
};

/// The calls in flight of one session, or of one connection without a session.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Mutex<HashMap<Id<'static>, InFlightCall>>,
    count: AtomicUsize,
    taken_off: AtomicU64,
    /// The requests that listen, which nobody waits for.
    listens: Mutex<HashMap<Id<'static>, Listener>>,
    listening: AtomicUsize,
}

/// Tells a call from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(u64);

/// A call in flight.
#[derive(Debug)]
pub(crate) struct InFlightCall {
    pub(crate) number: Number,
    pub(crate) abort: AbortHandle,
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) sink: Sink,
    pub(crate) _permit: Option<Permit>,
}

impl InFlight {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn has(&self, id: &Id<'_>) -> bool {
        (self.count() > 0 && self.table().contains_key(id.as_json()))
            || (self.listening() > 0 && self.listens().contains_key(id.as_json()))
    }

    /// The number of requests that listen.
    pub(crate) fn listening(&self) -> usize {
        self.listening.load(Ordering::Acquire)
    }

    /// Adds a listener.
    ///
    /// # Errors
    ///
    /// Returns the listener if there is already one with its id.
    pub(crate) fn listen(&self, id: Id<'static>, listener: Listener) -> Result<(), Listener> {
        match self.listens().entry(id) {
            Entry::Occupied(_) => Err(listener),
            Entry::Vacant(free) => {
                self.listening.fetch_add(1, Ordering::AcqRel);
                free.insert(listener);
                Ok(())
            }
        }
    }

    /// Takes out every request that listens.
    pub(crate) fn take_listens(&self) -> HashMap<Id<'static>, Listener> {
        if self.listening() == 0 {
            return HashMap::new();
        }
        let listens = std::mem::take(&mut *self.listens());
        self.listening.fetch_sub(listens.len(), Ordering::AcqRel);
        listens
    }

    /// Starts a call and enters it into the table before it can end; false, and nothing is started, if another one with its id took
    /// off since it was looked for.
    pub(crate) fn take_off(&self, id: Id<'static>, start: impl FnOnce(Number) -> InFlightCall) -> bool {
        let mut table = self.table();
        match table.entry(id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                self.count.fetch_add(1, Ordering::AcqRel);
                let flight = start(Number(self.taken_off.fetch_add(1, Ordering::Relaxed)));
                flight.outbox.open();
                free.insert(flight);
                true
            }
        }
    }

    /// Ends a call with its response, unless it was cancelled.
    pub(crate) fn land(&self, id: &Id<'static>, number: Number, response: &[u8]) {
        let Some(flight) = self.remove(id, |flight| flight.number == number) else { return };
        flight.outbox.close(|out| match flight.sink {
            Sink::Line => {
                out.extend_from_slice(response);
                out.push(b'\n');
            }
            Sink::Batch(batch) => batch.push(response, out),
        });
    }

    /// Drops a call, or a request that listens, without an answer; false if there is none of this id.
    pub(crate) fn cancel(&self, id: &Id<'_>) -> bool {
        self.remove(id, |_| true)
            .map(InFlightCall::stop)
            .or_else(|| self.remove_listen(id).map(Listener::stop))
            .is_some()
    }

    /// Drops every call, and every request that listens.
    pub(crate) fn cancel_all(&self) {
        self.take_listens().into_values().for_each(Listener::stop);
        let in_flight = std::mem::take(&mut *self.table());
        self.count.fetch_sub(in_flight.len(), Ordering::AcqRel);
        in_flight.into_values().for_each(InFlightCall::stop);
    }

    /// Ends every listener with its response. Returns whether there were any.
    pub(crate) fn end_listens(&self) -> bool {
        let listens = self.take_listens();
        let any = !listens.is_empty();
        listens.into_iter().for_each(|(id, listen)| listen.complete(&id));
        any
    }

    fn remove(&self, id: &Id<'_>, is_meant: impl FnOnce(&InFlightCall) -> bool) -> Option<InFlightCall> {
        let mut table = self.table();
        table.get(id.as_json()).filter(|flight| is_meant(flight))?;
        let flight = table.remove(id.as_json())?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(flight)
    }

    fn remove_listen(&self, id: &Id<'_>) -> Option<Listener> {
        let listen = self.listens().remove(id.as_json())?;
        self.listening.fetch_sub(1, Ordering::AcqRel);
        Some(listen)
    }

    fn listens(&self) -> MutexGuard<'_, HashMap<Id<'static>, Listener>> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Id<'static>, InFlightCall>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    fn stop(self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
        self.outbox.close(|out| {
            if let Sink::Batch(batch) = self.sink {
                batch.skip(out);
            }
        });
    }
}
