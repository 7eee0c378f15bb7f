use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use crate::{
    engine::{limits::Meter, sync::MutexGuard},
    error::FaultClass,
};

/// The maximum number of unread bytes in an outbox. Notifications beyond it are dropped; responses are not.
pub(in crate::engine) const MAX_UNREAD_BYTES: usize = 1 << 20;

/// A source of notifications that are encoded only when the transport is ready for them.
pub(in crate::engine) trait PendingNotifications: Send + Sync {
    /// Writes the pending notifications as lines, and clears them.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns whether the subscription has ended, so that nothing more may be written.
    fn is_ended(&self) -> bool;
}

/// The contents of an outbox, with its writers and its reader.
#[derive(Default)]
pub(super) struct Contents {
    /// Encoded lines.
    pub(super) lines: Vec<u8>,
    /// Subscriptions with pending notifications, each at most once. They are encoded when the transport drains the
    /// outbox.
    pub(super) pending: Vec<Arc<dyn PendingNotifications>>,
    /// The number of calls whose responses will arrive here.
    pub(super) calls: usize,
    /// The number of requests to the client that are neither answered nor withdrawn.
    pub(super) questions: usize,
    /// The number of listeners whose responses will arrive here.
    pub(super) listeners: usize,
    /// The number of streams that carry the output to the client.
    pub(super) readers: usize,
    pub(super) waker: Option<Waker>,
    /// The time after which the client should reconnect, if a function has asked to close the SSE stream.
    pub(super) close_after: Option<Duration>,
    /// The class of the fault with which a call ended.
    pub(super) fault: Option<FaultClass>,
    pub(super) meter: Option<Meter>,
    /// The number of bytes that `meter` includes.
    metered: usize,
    /// Whether a notification was dropped since the transport last drained the outbox.
    pub(super) has_dropped: bool,
}

/// The locked contents of an outbox. Updates the meter when dropped.
pub(super) struct LockedContents<'a>(pub(super) MutexGuard<'a, Contents>);

impl Deref for LockedContents<'_> {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.0
    }
}

impl DerefMut for LockedContents<'_> {
    fn deref_mut(&mut self) -> &mut Contents {
        &mut self.0
    }
}

impl Drop for LockedContents<'_> {
    fn drop(&mut self) {
        let unread = self.lines.len();
        self.update_meter(unread);
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.update_meter(0);
    }
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.pending.is_empty()
    }

    fn update_meter(&mut self, unread: usize) {
        let Some(meter) = &self.meter else { return };
        let before = std::mem::replace(&mut self.metered, unread);
        match unread.checked_sub(before) {
            Some(0) => {}
            Some(added) => meter.add(added),
            None => meter.sub(before - unread),
        }
    }

    /// Encodes the pending notifications.
    pub(super) fn write_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for pending in std::mem::take(&mut self.pending) {
            pending.write(&mut self.lines);
        }
    }

    pub(super) fn push_line(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
