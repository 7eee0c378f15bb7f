//! The calls that outlive their message: whoever takes one out of the table decides about its answer.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::task::AbortHandle;

use super::{batch::Batch, listen::Listen, outbox::Outbox, request_source::Permit};
use crate::{handler::Context, jsonrpc::Id};

/// The calls in flight of one session, or of one connection without a session.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Mutex<HashMap<Id<'static>, InFlightCall>>,
    count: AtomicUsize,
    taken_off: AtomicU64,
    /// The requests that listen, which nobody waits for.
    listens: Mutex<HashMap<Id<'static>, Listen>>,
    listening: AtomicUsize,
}

/// Tells a call from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(u64);

/// A call in flight.
#[derive(Debug)]
pub(super) struct InFlightCall {
    pub(super) number: Number,
    pub(super) abort: AbortHandle,
    pub(super) context: Option<Arc<Context>>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) sink: Sink,
    pub(super) _permit: Option<Permit>,
}

/// Where in its outbox the response of a call goes.
#[derive(Debug, Clone)]
pub(super) enum Sink {
    /// It is a line of its own.
    Line,
    /// It is a part of the response of its batch.
    Batch(Arc<Batch>),
}

impl InFlight {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, id: &Id<'_>) -> bool {
        (self.count() > 0 && self.table().contains_key(id.as_json()))
            || (self.listening() > 0 && self.listens().contains_key(id.as_json()))
    }

    /// The number of requests that listen.
    pub(super) fn listening(&self) -> usize {
        self.listening.load(Ordering::Acquire)
    }

    /// Enters a request that listens; false if another one with its id did meanwhile.
    pub(super) fn listen(&self, id: Id<'static>, listen: Listen) -> bool {
        let mut listens = self.listens();
        match listens.entry(id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                self.listening.fetch_add(1, Ordering::AcqRel);
                free.insert(listen);
                true
            }
        }
    }

    /// Takes out every request that listens.
    pub(super) fn take_listens(&self) -> HashMap<Id<'static>, Listen> {
        if self.listening() == 0 {
            return HashMap::new();
        }
        let listens = std::mem::take(&mut *self.listens());
        self.listening.fetch_sub(listens.len(), Ordering::AcqRel);
        listens
    }

    /// Starts a call and enters it into the table before it can end; false, and nothing is started, if another one with its id took
    /// off since it was looked for.
    pub(super) fn take_off(&self, id: Id<'static>, start: impl FnOnce(Number) -> InFlightCall) -> bool {
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
    pub(super) fn land(&self, id: &Id<'static>, number: Number, response: &[u8]) {
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
        self.remove(id, |_| true).map(InFlightCall::stop).or_else(|| self.remove_listen(id).map(Listen::stop)).is_some()
    }

    /// Drops every call, and every request that listens.
    pub(crate) fn cancel_all(&self) {
        self.take_listens().into_values().for_each(Listen::stop);
        let in_flight = std::mem::take(&mut *self.table());
        self.count.fetch_sub(in_flight.len(), Ordering::AcqRel);
        in_flight.into_values().for_each(InFlightCall::stop);
    }

    fn remove(&self, id: &Id<'_>, is_meant: impl FnOnce(&InFlightCall) -> bool) -> Option<InFlightCall> {
        let mut table = self.table();
        table.get(id.as_json()).filter(|flight| is_meant(flight))?;
        let flight = table.remove(id.as_json())?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(flight)
    }

    fn remove_listen(&self, id: &Id<'_>) -> Option<Listen> {
        let listen = self.listens().remove(id.as_json())?;
        self.listening.fetch_sub(1, Ordering::AcqRel);
        Some(listen)
    }

    fn listens(&self) -> MutexGuard<'_, HashMap<Id<'static>, Listen>> {
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
