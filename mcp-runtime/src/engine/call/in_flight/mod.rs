//! The calls that are still running after their message has been processed. Only the task that removes a call from the
//! table may write its response.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, PoisonError},
};

use tokio::task::AbortHandle;

use super::{batch::Sink, running};
use crate::{
    engine::{
        outbox::Outbox,
        request::source::Permit,
        subscriptions::filter::Listener,
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicU64, AtomicUsize, Ordering},
        },
    },
    error::{Fault, FaultClass},
    handler::Context,
    jsonrpc::Id,
    revision::Dialect,
};

/// The calls in flight of a session, or of a connection without a session.
///
/// The tables have no bounds of their own: the limits on calls and listeners are checked before an entry is added.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Mutex<HashMap<Id<'static>, InFlightCall>>,
    call_count: AtomicUsize,
    next_number: AtomicU64,
    /// The open `subscriptions/listen` requests, which do not count as calls.
    listeners: Mutex<HashMap<Id<'static>, Listener>>,
    listener_count: AtomicUsize,
}

/// A sequence number that distinguishes a call from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequenceNumber(u64);

/// A call in flight.
#[derive(Debug)]
pub(crate) struct InFlightCall {
    pub(crate) number: SequenceNumber,
    pub(crate) abort: AbortHandle,
    pub(crate) context: Option<Arc<Context>>,
    /// The dialect of the response.
    pub(crate) dialect: &'static Dialect,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) sink: Sink,
    pub(crate) _permit: Option<Permit>,
}

impl InFlight {
    /// Returns the number of calls in flight.
    pub(crate) fn count(&self) -> usize {
        self.call_count.load(Ordering::Acquire)
    }

    /// Returns the number of open `subscriptions/listen` requests.
    pub(crate) fn listener_count(&self) -> usize {
        self.listener_count.load(Ordering::Acquire)
    }

    /// Returns whether a call or a listener has this id.
    pub(crate) fn has(&self, id: &Id<'_>) -> bool {
        (self.count() > 0 && self.calls().contains_key(id.as_json()))
            || (self.listener_count() > 0 && self.listeners().contains_key(id.as_json()))
    }

    /// Adds a listener.
    ///
    /// # Errors
    ///
    /// Returns the listener if there is already one with its id.
    pub(crate) fn listen(&self, id: Id<'static>, listener: Listener) -> Result<(), Listener> {
        match self.listeners().entry(id) {
            Entry::Occupied(_) => Err(listener),
            Entry::Vacant(entry) => {
                self.listener_count.fetch_add(1, Ordering::AcqRel);
                entry.insert(listener);
                Ok(())
            }
        }
    }

    /// Starts a call and adds it to the table before it can finish. Returns `false` without starting it if the table
    /// already contains a call with its id.
    pub(crate) fn start(&self, id: Id<'static>, start: impl FnOnce(SequenceNumber) -> InFlightCall) -> bool {
        let mut calls = self.calls();
        match calls.entry(id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                self.call_count.fetch_add(1, Ordering::AcqRel);
                let call = start(SequenceNumber(self.next_number.fetch_add(1, Ordering::Relaxed)));
                call.outbox.open_call();
                entry.insert(call);
                true
            }
        }
    }

    /// Finishes a call with its response, unless it was cancelled.
    pub(crate) fn finish(
        &self,
        id: &Id<'static>,
        number: SequenceNumber,
        response: Vec<u8>,
        fault: Option<FaultClass>,
    ) {
        let Some(call) = self.remove(id, |call| call.number == number) else { return };
        if let Some(fault) = fault {
            call.outbox.set_fault(fault);
        }
        call.respond(response);
    }

    /// Cancels a call or a listener without a response. Returns `false` if there is none with this id.
    pub(crate) fn cancel(&self, id: &Id<'_>) -> bool {
        if let Some(call) = self.remove(id, |_| true) {
            call.cancel();
            return true;
        }
        self.remove_listener(id).map(Listener::cancel).is_some()
    }

    /// Cancels every call and every listener without a response, because its connection is gone.
    pub(crate) fn cancel_all(&self) {
        self.take_listeners().into_values().for_each(Listener::cancel);
        self.take_calls().into_values().for_each(InFlightCall::cancel);
    }

    /// Cancels every call with an error response, and ends every listener with its response. Returns whether there were
    /// any.
    pub(crate) fn fail_all(&self, fault: &Fault) -> bool {
        let calls = self.take_calls();
        let any = self.end_listeners() || !calls.is_empty();
        calls.into_iter().for_each(|(id, call)| call.fail(&id, fault));
        any
    }

    /// Ends every listener with its response. Returns whether there were any.
    pub(crate) fn end_listeners(&self) -> bool {
        let listeners = self.take_listeners();
        let any = !listeners.is_empty();
        listeners.into_iter().for_each(|(id, listener)| listener.end(&id));
        any
    }

    fn take_calls(&self) -> HashMap<Id<'static>, InFlightCall> {
        let calls = std::mem::take(&mut *self.calls());
        self.call_count.fetch_sub(calls.len(), Ordering::AcqRel);
        calls
    }

    fn take_listeners(&self) -> HashMap<Id<'static>, Listener> {
        if self.listener_count() == 0 {
            return HashMap::new();
        }
        let listeners = std::mem::take(&mut *self.listeners());
        self.listener_count.fetch_sub(listeners.len(), Ordering::AcqRel);
        listeners
    }

    fn remove(&self, id: &Id<'_>, filter: impl FnOnce(&InFlightCall) -> bool) -> Option<InFlightCall> {
        let mut calls = self.calls();
        calls.get(id.as_json()).filter(|call| filter(call))?;
        let call = calls.remove(id.as_json())?;
        self.call_count.fetch_sub(1, Ordering::AcqRel);
        Some(call)
    }

    fn remove_listener(&self, id: &Id<'_>) -> Option<Listener> {
        let listener = self.listeners().remove(id.as_json())?;
        self.listener_count.fetch_sub(1, Ordering::AcqRel);
        Some(listener)
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<Id<'static>, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Id<'static>, InFlightCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    fn respond(self, response: Vec<u8>) {
        self.outbox.close_call(|out| match self.sink {
            Sink::Line => {
                if response.len() > out.capacity() && out.is_empty() {
                    *out = response;
                } else {
                    out.extend_from_slice(&response);
                }
                out.push(b'\n');
            }
            Sink::Batch(batch) => batch.push(&response, out),
        });
    }

    fn stop(&self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
    }

    fn fail(self, id: &Id<'_>, fault: &Fault) {
        self.stop();
        let mut response = Vec::new();
        running::write_error(&mut response, self.dialect, Some(id), fault);
        self.respond(response);
    }

    fn cancel(self) {
        self.stop();
        self.outbox.close_call(|out| {
            if let Sink::Batch(batch) = self.sink {
                batch.skip(out);
            }
        });
    }
}

#[cfg(all(test, shuttle))]
mod interleavings;
