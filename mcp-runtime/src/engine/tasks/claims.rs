//! Ensures that only one `tasks/result` request at a time sends a question of a task to the client.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, futures::Notified};

/// The claims of `tasks/result` requests to the questions of tasks.
///
/// If several requests wait for the same task, the newest one sends its questions, because the stream of an older one
/// may be lost.
#[derive(Debug, Default)]
pub(super) struct InputClaims {
    /// The request that has claimed each question.
    holders: Mutex<HashMap<InputId, RequestOrder>>,
    next: AtomicU64,
    /// The signal that a claim was released or taken over.
    changed: Notify,
}

/// The position of a request in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestOrder(u64);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct InputId {
    task: String,
    key: String,
}

/// The exclusive right of a request to send a question, released on drop.
pub(super) struct InputClaim {
    claims: Arc<InputClaims>,
    input: InputId,
    order: RequestOrder,
}

impl InputClaims {
    /// Returns the position of a new request, after all others.
    pub(super) fn next_order(&self) -> RequestOrder {
        RequestOrder(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits until a claim is released or taken over.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Claims a question, taking it over from an older request. Returns `None` if a newer request holds it.
    pub(super) fn claim(self: &Arc<Self>, task: &str, key: &str, order: RequestOrder) -> Option<InputClaim> {
        let input = InputId { task: task.to_owned(), key: key.to_owned() };
        let mut holders = self.holders();
        if holders.get(&input).is_some_and(|holder| *holder >= order) {
            return None;
        }
        let is_taken_over = holders.insert(input.clone(), order).is_some();
        drop(holders);
        if is_taken_over {
            self.changed.notify_waiters();
        }
        Some(InputClaim { claims: Arc::clone(self), input, order })
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<InputId, RequestOrder>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InputClaim {
    /// Returns whether the claim has not been taken over by a newer request.
    pub(super) fn is_held(&self) -> bool {
        self.claims.holders().get(&self.input) == Some(&self.order)
    }
}

impl Drop for InputClaim {
    fn drop(&mut self) {
        let mut holders = self.claims.holders();
        if holders.get(&self.input) == Some(&self.order) {
            holders.remove(&self.input);
            drop(holders);
            self.claims.changed.notify_waiters();
        }
    }
}
