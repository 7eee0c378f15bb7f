//! Back-pressure: limits how many bytes wait to be written to one peer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The limit in bytes. While a backlog exceeds it, input that would add to it is not read.
const MAX_BYTES: usize = 8 << 20;

/// Counts the bytes that wait to be written and wakes the task that waits for room.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog {
    bytes: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

impl Backlog {
    /// Returns an empty backlog that wakes the same task as this one.
    pub(super) fn sibling(&self) -> Self {
        Self { bytes: Arc::default(), room: Arc::clone(&self.room) }
    }

    /// Counts bytes that were queued.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were written or discarded.
    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_one();
    }

    /// Returns whether the backlog is below its limit.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < MAX_BYTES
    }

    /// Waits until something is removed from this backlog or a sibling.
    pub(super) async fn removed(&self) {
        self.room.notified().await;
    }
}
