//! Counters and gauges of the process, read by [`Stats`](crate::telemetry::Stats): relaxed atomics, off the path of calls
//! that complete in place.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A counter or a gauge of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    ActiveCalls,
    Listeners,
    CallStreams,
    SessionStreams,
    SubscriptionStreams,
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

/// The bytes that are buffered for one purpose, and their limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffered {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

impl Buffered {
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has endpoints"))]
    pub(crate) fn add(&mut self, used: usize, max: usize) {
        self.used += used;
        self.max += max;
    }
}

/// The buffers of the HTTP endpoints of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointBuffers {
    pub(crate) requests: Buffered,
    pub(crate) responses: Buffered,
    pub(crate) streams: Buffered,
}

/// An HTTP endpoint, as a source of statistics.
pub(crate) trait EndpointStats: fmt::Debug + Send + Sync {
    fn add_to(&self, buffers: &mut EndpointBuffers);
}
