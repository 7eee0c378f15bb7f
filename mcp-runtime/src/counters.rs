//! What the process has counted for [`Stats`](crate::telemetry::Stats): relaxed atomics, off the path of calls that
//! complete in place.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter or a gauge of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    ActiveCalls,
    Listeners,
    Questions,
    WorkingTasks,
    InputRequiredTasks,
    RefusedCalls,
    RefusedConnections,
    RefusedListeners,
    RefusedMemory,
    RefusedQuestions,
    RefusedRate,
    RefusedSessions,
    RefusedTasks,
    DroppedNotifications,
    DroppedLogBytes,
    Authenticated,
    InsufficientScope,
    CredentialsMissing,
    CredentialsInvalid,
    AuthenticatorUnavailable,
}

/// The number of [`Counter`]s.
const COUNT: usize = Counter::AuthenticatorUnavailable as usize + 1;

static VALUES: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];

impl Counter {
    pub(crate) fn count(self) {
        self.add(1);
    }

    pub(crate) fn add(self, amount: u64) {
        VALUES[self as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn value(self) -> u64 {
        VALUES[self as usize].load(Ordering::Relaxed)
    }
}

/// A guard that counts something for as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted(Counter);

impl Counted {
    pub(crate) fn new(counter: Counter) -> Self {
        counter.count();
        Self(counter)
    }

    /// Counts something else from now on.
    #[cfg(feature = "tasks")]
    pub(crate) fn set(&mut self, counter: Counter) {
        if counter != self.0 {
            *self = Self::new(counter);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        VALUES[self.0 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
