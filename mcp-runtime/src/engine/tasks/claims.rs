use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

/// The questions of tasks that a client is being asked, each by the newest request that waits for its task: the stream of an
/// older one may be lost.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// By task and key, the turn of the request that asks.
    claimed: Mutex<HashMap<(String, String), u64>>,
    turns: AtomicU64,
    /// Some request no longer asks a question, or another one asks it now.
    pub(super) moved: Notify,
}

/// Says that this request asks a question, until it is dropped.
pub(super) struct Claim {
    claims: Arc<Claims>,
    of: (String, String),
    turn: u64,
}

impl Claims {
    /// Gives the turn of a new request, behind all others.
    pub(super) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Claims a question of a task, also from an older request; none if a newer one asks it.
    pub(super) fn claim(self: &Arc<Self>, task: &str, key: &str, turn: u64) -> Option<Claim> {
        let of = (task.to_owned(), key.to_owned());
        let mut claimed = self.claimed();
        if claimed.get(&of).is_some_and(|holder| *holder >= turn) {
            return None;
        }
        let is_taken_over = claimed.insert(of.clone(), turn).is_some();
        drop(claimed);
        if is_taken_over {
            self.moved.notify_waiters();
        }
        Some(Claim { claims: Arc::clone(self), of, turn })
    }

    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), u64>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Says whether no newer request asks the question.
    pub(super) fn holds(&self) -> bool {
        self.claims.claimed().get(&self.of) == Some(&self.turn)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.claims.claimed();
        if claimed.get(&self.of) == Some(&self.turn) {
            claimed.remove(&self.of);
            drop(claimed);
            self.claims.moved.notify_waiters();
        }
    }
}
