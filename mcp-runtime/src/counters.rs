//! Counters and gauges of the process, read by [`Stats`](crate::telemetry::Stats): sharded relaxed atomics; and limits for
//! warnings about what they count.

use std::{
    fmt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::stdx::Mutex;

/// Passes the metrics that the process counts to a macro: the name, unit and description of each, and its counters. A
/// metric with several counters has an attribute, and a value of the attribute for each counter.
macro_rules! metrics {
    ($callback:ident) => {
        $callback! {
            gauge("mcp.server.calls.active", "{call}", "Calls that run or wait"): ActiveCalls;
            gauge("mcp.server.subscriptions.active", "{request}", "Open `subscriptions/listen` requests"): Listeners;
            gauge("mcp.server.client_requests.active", "{request}", "Requests to clients without an answer"): Questions;
            counter(
                "mcp.server.notifications.dropped", "{notification}", "Notifications to clients that read too slowly"
            ): DroppedNotifications;
            counter("mcp.server.log.dropped", "{line}", "Lines that stderr did not take"): DroppedLogLines;
            gauge("mcp.server.streams.active", "{stream}", "Open event streams over HTTP"), "mcp.stream.kind":
                CallStreams = "call", SessionStreams = "session", SubscriptionStreams = "subscription";
            gauge("mcp.server.tasks", "{task}", "Tasks that the process runs"), "mcp.task.status":
                WorkingTasks = "working", InputRequiredTasks = "input_required";
            counter("mcp.server.tasks.ended", "{task}", "Tasks that have ended in this process"), "mcp.task.status":
                CompletedTasks = "completed", FailedTasks = "failed", CancelledTasks = "cancelled",
                ExpiredTasks = "expired";
            counter(
                "mcp.server.refusals", "{request}", "Requests and connections that were refused because of a limit"
            ), "mcp.refusal.reason":
                RefusedCalls = "calls", RefusedConnections = "connections", RefusedListeners = "subscriptions",
                RefusedMemory = "memory", RefusedQuestions = "client_requests", RefusedRate = "rate",
                RefusedSessions = "sessions", RefusedTasks = "tasks";
            counter(
                "mcp.server.authentications", "{request}", "Requests by the outcome of their authentication"
            ), "mcp.authentication.outcome":
                Authenticated = "accepted", InsufficientScope = "insufficient_scope", CredentialsMissing = "missing",
                CredentialsInvalid = "invalid", AuthenticatorUnavailable = "unavailable";
        }
    };
}

pub(crate) use metrics;

macro_rules! define_counters {
    ($($kind:ident($($text:literal),+) $(, $attribute:literal)?: $($counter:ident $(= $label:literal)?),+;)+) => {
        /// A counter or a gauge of the process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($($counter,)+)+
            /// The number of the counters above.
            Count,
        }
    };
}

metrics!(define_counters);

pub(crate) const COUNT: usize = Counter::Count as usize;

/// The number of copies of the counters. Threads that share one wait for each other's caches.
const SHARDS: usize = 16;

/// A copy of all counters. A gauge may be increased in one shard and decreased in another, so a single value may wrap; the
/// sum does not.
#[repr(align(128))]
struct Shard([AtomicU64; COUNT]);

static VALUES: [Shard; SHARDS] = [const { Shard([const { AtomicU64::new(0) }; COUNT]) }; SHARDS];

thread_local! {
    static SHARD: &'static Shard = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        &VALUES[NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS]
    };
}

impl Counter {
    pub(crate) fn count(self) {
        self.add(1);
    }

    pub(crate) fn add(self, amount: u64) {
        // A thread that ends may have no shard any more.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(&VALUES[0]);
        shard.0[self as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn value(self) -> u64 {
        let values = VALUES.iter().map(|shard| shard.0[self as usize].load(Ordering::Relaxed));
        // A gauge that was increased in one shard and decreased in another, which was read before.
        let sum = values.fold(0, u64::wrapping_add);
        if sum > u64::MAX / 2 { 0 } else { sum }
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
    pub(crate) fn set(&mut self, counter: Counter) {
        if counter != self.0 {
            *self = Self::new(counter);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.add(1_u64.wrapping_neg());
    }
}

/// The minimum time between two warnings of one kind.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Limits the warnings about one condition, of which every request, stream or connection would write one.
#[derive(Debug)]
pub(crate) struct Warnings(Mutex<Option<Instant>>);

impl Warnings {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns whether a warning is due, and records it.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|at| at.elapsed() > WARNING_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// The bytes that are buffered for one purpose, and their limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffered {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

impl Buffered {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_warnings_at_once_one_is_due() {
        let warnings = Warnings::new();
        assert_eq!((0..100).filter(|_| warnings.is_due()).count(), 1);
    }

    /// A server may have several endpoints.
    #[test]
    fn buffers_of_endpoints_are_summed() {
        let mut buffered = Buffered::default();
        [(1, 10), (2, 20)].into_iter().for_each(|(used, max)| buffered.add(used, max));
        assert_eq!((buffered.used, buffered.max), (3, 30));
    }

    /// No value of a gauge is negative, even if its decrease is seen before its increase.
    #[test]
    fn a_decrease_without_its_increase_counts_as_zero() {
        const MUCH: u64 = 1 << 40;

        let gauge = Counter::SubscriptionStreams;
        gauge.add(MUCH.wrapping_neg());
        let value = gauge.value();
        gauge.add(MUCH);
        assert_eq!(value, 0);
    }
}
