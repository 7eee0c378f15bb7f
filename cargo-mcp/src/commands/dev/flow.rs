//! Back-pressure: how much waits to be written somewhere.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The most bytes that wait; beyond, nothing more is taken that would make them more.
const MOST: usize = 8 << 20;

/// Counts the bytes that wait, and wakes whoever waits for room.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    waiting: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

impl Flow {
    /// Another one, which wakes the same waiter.
    pub(super) fn another(&self) -> Self {
        Self { waiting: Arc::default(), room: Arc::clone(&self.room) }
    }

    pub(super) fn gave(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn took(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_one();
    }

    pub(super) fn is_open(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < MOST
    }

    /// Waits until something was written.
    pub(super) async fn room(&self) {
        self.room.notified().await;
    }
}
