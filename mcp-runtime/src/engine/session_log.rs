//! Log messages outside of calls, for the clients of this process.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{session::Session, weak_set::WeakSet};
use crate::model::Level;

/// Sends log messages to the sessions of this process, and counts those that cannot be sent.
#[derive(Debug)]
pub(crate) struct SessionLog {
    sessions: Arc<WeakSet<Session>>,
    dropped: AtomicU64,
}

impl SessionLog {
    pub(super) fn new(sessions: &Arc<WeakSet<Session>>) -> Self {
        Self { sessions: Arc::clone(sessions), dropped: AtomicU64::new(0) }
    }

    /// Sends an encoded message to the sessions that have asked for its level.
    pub(crate) fn send(&self, level: Level, message: &[u8]) {
        let open = self.sessions.iter().filter(|session| !session.has_ended());
        let dropped = open.filter(|session| !session.log(level, message)).count();
        self.count_dropped(dropped as u64);
    }

    /// Counts messages that could not be sent.
    pub(super) fn count_dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Relaxed);
    }

    /// Returns the number of messages that could not be sent.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
