use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
};

use super::lease::Slot;

/// Receives the messages of one kind that other replicas, or this one, send and announce.
///
/// The methods must not block: other messages are waiting. They are called inside of a tokio runtime, so they can spawn
/// tasks.
pub(crate) trait ReplicaHandler: Send + Sync {
    /// Handles a message.
    fn message(&self, payload: &[u8]);

    /// Handles that messages may have been lost: everything that was read from the backend and is kept until a message
    /// announces a change is stale.
    fn missed(&self);

    /// Handles that this process did not run for some time, so that messages which were sent before may not have been
    /// handled yet. They were not lost.
    fn paused(&self) {}

    /// Handles that the other replicas consider the replica that had this slot gone, and its calls lost. The replica
    /// gets a new slot.
    fn lost(&self, slot: Slot) {
        let _ = slot;
    }
}

/// The handlers of a replica, by kind of message. There are as many as the engine and the transports register.
#[derive(Default)]
pub(super) struct Handlers(Mutex<Vec<(&'static str, Weak<dyn ReplicaHandler>)>>);

impl Handlers {
    pub(super) fn add(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>) {
        let mut handlers = self.lock();
        handlers.retain(|(_, handler)| handler.strong_count() > 0);
        handlers.push((kind, handler));
    }

    /// Passes a message to the handlers of its kind. Ignores messages without a handler, which a newer release may send.
    pub(super) fn message(&self, message: &[u8]) {
        let Some(end) = message.iter().position(|&byte| byte == b' ') else { return };
        for (kind, handler) in self.live() {
            if kind.as_bytes() == &message[..end] {
                handler.message(&message[end + 1..]);
            }
        }
    }

    pub(super) fn missed(&self) {
        self.live().iter().for_each(|(_, handler)| handler.missed());
    }

    pub(super) fn paused(&self) {
        self.live().iter().for_each(|(_, handler)| handler.paused());
    }

    pub(super) fn lost(&self, slot: Slot) {
        self.live().iter().for_each(|(_, handler)| handler.lost(slot));
    }

    /// Returns the handlers, which are called without the lock.
    fn live(&self) -> Vec<(&'static str, std::sync::Arc<dyn ReplicaHandler>)> {
        self.lock().iter().filter_map(|(kind, handler)| Some((*kind, handler.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, Weak<dyn ReplicaHandler>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a message of a kind, which contains no spaces.
pub(super) fn encode(kind: &str, payload: &[u8]) -> Vec<u8> {
    debug_assert!(!kind.contains(' '));
    [kind.as_bytes(), b" ", payload].concat()
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().map(|(kind, _)| kind)).finish()
    }
}
