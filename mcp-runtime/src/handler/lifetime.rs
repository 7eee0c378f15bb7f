use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The state of a call: whether it was cancelled, has completed, or is detached because it continues as a task.
#[derive(Debug, Default)]
pub(crate) struct CallLifetime {
    cancelled: AtomicBool,
    completed: AtomicBool,
    /// Whether the function continues independently of the request that started it.
    detached: AtomicBool,
    ended: Notify,
}

impl CallLifetime {
    pub(super) fn cancel(&self) {
        self.set(&self.cancelled);
    }

    pub(super) fn complete(&self) {
        self.set(&self.completed);
    }

    /// Sets a flag and wakes the waiting tasks. Has no effect on a detached call, which outlives its request.
    fn set(&self, flag: &AtomicBool) {
        if self.detached.load(Ordering::Acquire) {
            return;
        }
        flag.store(true, Ordering::Release);
        self.ended.notify_waiters();
    }

    pub(super) fn set_detached(&self, detached: bool) {
        self.detached.store(detached, Ordering::Release);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.completed.load(Ordering::Acquire) || self.is_cancelled()
    }

    /// Waits until the call is cancelled or completed.
    pub(crate) async fn ended(&self) {
        loop {
            let notified = self.ended.notified();
            if self.has_ended() {
                return;
            }
            notified.await;
        }
    }
}
