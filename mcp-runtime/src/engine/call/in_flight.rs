//! The calls that are still running after their message has been processed, and where their responses go: to a line of
//! the output, or to the response of a batch, an array that is sent once every request of the batch is answered.
//!
//! Only the task that removes a call from the table may write its response.
//!
//! See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, PoisonError},
};

use tokio::task::AbortHandle;

use super::response;
use crate::{
    counters::Counted,
    engine::{
        listener::Listener,
        outbox::Outbox,
        request::{
            operation::{CANCELLED, Ending, Operation},
            source::Permit,
        },
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicUsize, Ordering},
        },
    },
    error::Fault,
    handler::{Call, Context},
    jsonrpc::Id,
    stdx::debug,
};

/// The calls in flight of a session, or of a connection without a session.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Table<(Context, Sink)>,
    /// The open `subscriptions/listen` requests, which do not count as calls.
    listeners: Table<Listener>,
}

impl InFlight {
    /// Returns the number of calls in flight.
    pub(crate) fn count(&self) -> usize {
        self.calls.count()
    }

    /// Returns the number of open `subscriptions/listen` requests.
    pub(crate) fn listener_count(&self) -> usize {
        self.listeners.count()
    }

    /// Returns whether a call or a listener has this id.
    pub(crate) fn has(&self, id: &Id) -> bool {
        self.calls.has(id) || self.listeners.has(id)
    }

    /// Adds a listener.
    ///
    /// # Errors
    ///
    /// Returns the listener if there is already one with its id.
    pub(crate) fn listen(&self, id: Id, listener: Listener) -> Result<(), Box<Listener>> {
        self.listeners.insert(id, listener, |listener| listener)
    }

    /// Adds a call to the table and starts it, before it can finish.
    ///
    /// # Errors
    ///
    /// Returns the destination of the response without starting the call if the table already contains a call with its
    /// id.
    pub(crate) fn start(
        &self,
        context: &Context,
        sink: Sink,
        spawn: impl FnOnce() -> AbortHandle,
    ) -> Result<(), Box<Sink>> {
        self.calls.insert(context.call().id.clone(), sink, |sink| {
            sink.open();
            context.shared().lifetime.set_task(spawn());
            (context.clone(), sink)
        })
    }

    /// Finishes a call with its response, unless it was cancelled.
    pub(crate) fn finish(&self, context: &Context, response: Vec<u8>, ending: &Ending) {
        let is_same = |(other, _): &(Context, Sink)| other.is_same(context);
        let Some((_, sink)) = self.calls.remove(&context.call().id, is_same) else { return };
        if let Some(class) = ending.class() {
            sink.outbox.set_fault(class);
        }
        end(context, sink, Some(response), ending);
    }

    /// Cancels a call or a listener without a response. Returns `false` if there is none with this id.
    pub(crate) fn cancel(&self, id: &Id) -> bool {
        if let Some(call) = self.calls.remove(id, |_| true) {
            cancel(call);
            return true;
        }
        self.listeners.remove(id, |_| true).map(Listener::cancel).is_some()
    }

    /// Cancels every call and every listener without a response, because its connection is gone.
    pub(crate) fn cancel_all(&self) {
        self.take_listeners().into_values().for_each(Listener::cancel);
        self.calls.take().into_values().for_each(cancel);
    }

    /// Cancels every call with an error response, and ends every listener with its response. Returns whether there were
    /// any.
    pub(crate) fn fail_all(&self, fault: &Fault) -> bool {
        let calls = self.calls.take();
        let any = self.end_listeners() || !calls.is_empty();
        calls.into_values().for_each(|call| fail(call, fault));
        any
    }

    /// Ends every listener with its response. Returns whether there were any.
    pub(crate) fn end_listeners(&self) -> bool {
        let listeners = self.take_listeners();
        let any = !listeners.is_empty();
        listeners.into_iter().for_each(|(id, listener)| listener.end(&id));
        any
    }

    fn take_listeners(&self) -> HashMap<Id, Listener> {
        if self.listener_count() == 0 { HashMap::new() } else { self.listeners.take() }
    }
}

/// Entries by the ids of their requests.
///
/// It has no bound of its own: the limits on calls and listeners are checked before an entry is added.
#[derive(Debug)]
struct Table<T> {
    entries: Mutex<Entries<T>>,
    count: AtomicUsize,
}

/// Boxed, since most sessions never have an entry.
type Entries<T> = Option<Box<HashMap<Id, T>>>;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), count: AtomicUsize::default() }
    }
}

impl<T> Table<T> {
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn has(&self, id: &Id) -> bool {
        self.count() > 0 && self.lock().as_ref().is_some_and(|entries| entries.contains_key(id))
    }

    /// Adds the entry that `create` makes of a value. Returns the value if there is already an entry with the id.
    fn insert<V>(&self, id: Id, value: V, create: impl FnOnce(V) -> T) -> Result<(), Box<V>> {
        match self.lock().get_or_insert_default().entry(id) {
            Entry::Occupied(_) => Err(Box::new(value)),
            Entry::Vacant(entry) => {
                self.count.fetch_add(1, Ordering::AcqRel);
                entry.insert(create(value));
                Ok(())
            }
        }
    }

    /// Removes an entry that the filter accepts.
    fn remove(&self, id: &Id, filter: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut entries = self.lock();
        let entries = entries.as_mut()?;
        entries.get(id).filter(|entry| filter(entry))?;
        let entry = entries.remove(id)?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(entry)
    }

    /// Removes all entries.
    fn take(&self) -> HashMap<Id, T> {
        let entries = self.lock().take().map(|entries| *entries).unwrap_or_default();
        self.count.fetch_sub(entries.len(), Ordering::AcqRel);
        entries
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fail((context, sink): (Context, Sink), fault: &Fault) {
    context.shared().lifetime.stop();
    let mut response = Vec::new();
    let Call { encoding, id, .. } = context.call();
    response::write_error(&mut response, encoding.dialect, Some(id), fault);
    end(&context, sink, Some(response), &Ending::Fault(fault.clone(), None));
}

fn cancel((context, sink): (Context, Sink)) {
    context.shared().lifetime.stop();
    end(&context, sink, None, &Ending::Failed(CANCELLED));
}

/// Ends a call that was removed from the table. Nothing responds to a notification.
fn end(context: &Context, sink: Sink, response: Option<Vec<u8>>, ending: &Ending) {
    let Call { encoding, id, .. } = context.call();
    sink.operation.end(encoding.dialect, ending);
    sink.close(response.filter(|_| !id.is_of_notification()));
}

/// The destination of the response of a call in flight: a line of the output, or a part of the response of a batch.
pub(crate) struct Sink {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) batch: Option<Arc<Batch>>,
    /// The capacity of the transport that the call occupies.
    pub(crate) _permit: Option<Permit>,
    /// The operation that ends with the response.
    pub(crate) operation: Operation,
    pub(crate) _count: Counted,
}

impl Sink {
    /// Announces the response.
    fn open(&self) {
        if let Some(batch) = &self.batch {
            batch.expect();
        }
        self.outbox.open_call();
    }

    /// Sends the response, or ends the call without one.
    fn close(self, response: Option<Vec<u8>>) {
        self.outbox.close_call(|out| match (self.batch, response) {
            (Some(batch), response) => batch.close(response.as_deref(), out),
            (None, Some(response)) => {
                if response.len() > out.capacity() && out.is_empty() {
                    *out = response;
                } else {
                    out.extend_from_slice(&response);
                }
                out.push(b'\n');
            }
            (None, None) => {}
        });
    }
}

debug!(Sink, self, batch: self.batch);

/// A batch whose response is not yet complete. The limit on messages in a batch bounds the responses that it holds.
#[derive(Debug)]
pub(crate) struct Batch(Mutex<Progress>);

#[derive(Debug)]
struct Progress {
    /// The responses so far, separated by commas.
    responses: Vec<u8>,
    /// The number of requests that are neither answered nor cancelled, plus one while the batch is being read.
    open: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Progress { responses: Vec::new(), open: 1 }))
    }

    /// Announces a response that follows later.
    pub(crate) fn expect(&self) {
        self.progress().open += 1;
    }

    /// Adds a response that was not announced.
    pub(crate) fn add(&self, response: &[u8]) {
        self.progress().add(response);
    }

    /// Adds or drops an announced response, or marks the batch as read, and writes the response of the batch if it is
    /// complete.
    pub(crate) fn close(&self, response: Option<&[u8]>, out: &mut Vec<u8>) {
        let mut progress = self.progress();
        if let Some(response) = response {
            progress.add(response);
        }
        progress.open -= 1;
        if progress.open == 0 && !progress.responses.is_empty() {
            out.push(b'[');
            out.append(&mut progress.responses);
            out.extend_from_slice(b"]\n");
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn add(&mut self, response: &[u8]) {
        if !self.responses.is_empty() {
            self.responses.push(b',');
        }
        self.responses.extend_from_slice(response);
    }
}
