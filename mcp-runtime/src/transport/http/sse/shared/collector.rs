use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Outbox;

/// Decides which notifications of changes one replica writes to the stream of a session for messages that belong to no
/// request.
///
/// Every replica that knows the session hears of every change, but the client should be notified once. Therefore, only one
/// replica writes these notifications, the collector: the one at which the client opened its stream last or, before that,
/// the one that opened the session. It writes them once its client has received everything before, so that a flood of
/// changes does not fill the log.
///
/// When the client opens its stream at another replica, that one becomes the collector. The old collector first writes the
/// notifications that it has not written yet, and then an [entry](super::entry::Entry::Flushed) which says that none are
/// missing. If that entry does not appear in the log within the time of a lease, the old collector is probably gone, and
/// nobody knows which notifications it still had. The new collector then notifies the client of everything, as if every
/// list and every resource that the client subscribes to had changed.
#[derive(Debug)]
pub(super) struct Collector {
    session_id: Arc<str>,
    outbox: Arc<Outbox>,
    collection: Mutex<Collection>,
}

#[derive(Debug, Default)]
struct Collection {
    /// Whether this replica collects notifications of changes.
    is_collector: bool,
    /// Whether the earlier collector may still have some that are pending.
    is_incomplete: bool,
    /// Whether the client has received everything, so that pending notifications are written.
    is_wanted: bool,
    /// The number of the response elsewhere for which everything pending is written.
    flush_for: Option<u64>,
}

impl Collector {
    /// Creates the collector of a session. `is_collector` is whether this replica has opened the session.
    pub(super) fn new(session_id: Arc<str>, outbox: &Arc<Outbox>, is_collector: bool) -> Arc<Self> {
        let collection = Mutex::new(Collection { is_collector, ..Collection::default() });
        Arc::new(Self { session_id, outbox: Arc::clone(outbox), collection })
    }

    pub(super) fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// Returns the messages of the session that belong to no request.
    pub(super) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Makes this replica the collector of notifications. Returns whether an earlier one may have some that are pending.
    pub(super) fn begin(&self) -> bool {
        let mut collection = self.lock();
        if !collection.is_collector {
            collection.is_collector = true;
            collection.is_incomplete = true;
            collection.flush_for = None;
            // The earlier collector has or writes them.
            self.outbox.discard_pending();
        }
        collection.is_incomplete
    }

    /// Handles that a response at another replica carries the stream.
    pub(super) fn moved_to(&self, response: u64) {
        let mut collection = self.lock();
        if collection.is_collector && !collection.is_incomplete {
            collection.flush_for = Some(response);
        }
        collection.is_collector = false;
        collection.is_wanted = false;
        drop(collection);
        self.outbox.wake();
    }

    /// Takes the request to write everything that is pending. Also returns whether to write pending notifications.
    pub(super) fn take_flush(&self) -> (Option<u64>, bool) {
        let mut collection = self.lock();
        let flush_for = collection.flush_for.take();
        (flush_for, flush_for.is_some() || (collection.is_collector && collection.is_wanted))
    }

    /// Returns whether a response elsewhere waits for everything that is pending.
    pub(super) fn must_flush(&self) -> bool {
        self.lock().flush_for.is_some()
    }

    /// Returns whether pending notifications are written now.
    pub(super) fn writes_changes(&self) -> bool {
        let collection = self.lock();
        collection.is_collector && collection.is_wanted
    }

    /// Records that the client has received everything.
    pub(super) fn want_changes(&self) {
        let was_wanted = std::mem::replace(&mut self.lock().is_wanted, true);
        if !was_wanted {
            self.outbox.wake();
        }
    }

    /// Records that the client has something to receive first.
    pub(super) fn suspend_changes(&self) {
        self.lock().is_wanted = false;
    }

    /// Records that no earlier collector has notifications that are pending.
    pub(super) fn complete(&self) {
        self.lock().is_incomplete = false;
    }

    fn lock(&self) -> MutexGuard<'_, Collection> {
        self.collection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
