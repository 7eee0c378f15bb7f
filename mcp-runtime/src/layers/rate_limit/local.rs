//! The arithmetic of a budget, and counting the calls of this process.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use lru::LruCache;
use tokio::time::Instant;

pub(super) type Limiter = RateLimiter<NotKeyed, InMemoryState, Uptime, NoOpMiddleware<Duration>>;

/// The time since the layer was created, measured by tokio's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uptime(Instant);

impl Uptime {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn limiter(self, quota: Quota) -> Limiter {
        RateLimiter::direct_with_clock(quota, self)
    }

    /// Counts a call. Returns the time to wait if the rate is exceeded.
    pub(super) fn check(self, limiter: &Limiter) -> Result<(), Duration> {
        limiter.check().map_err(|not_until| not_until.wait_time_from(self.now()))
    }
}

impl Clock for Uptime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The budgets that this process does not share.
pub(super) struct LocalBudgets(Mutex<LruCache<String, Arc<Limiter>>>);

impl LocalBudgets {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }

    pub(super) fn limiter(&self, key: String, max_keys: usize, make: impl FnOnce() -> Limiter) -> Arc<Limiter> {
        let mut limiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = Arc::clone(limiters.get_or_insert(key, || Arc::new(make())));
        if limiters.len() > max_keys {
            limiters.pop_lru();
        }
        limiter
    }
}

/// The longest period of a budget in nanoseconds, ten years, so that sums of times do not overflow.
const MAX_PERIOD: u64 = 10 * 365 * 24 * 3600 * 1_000_000_000;

/// The number of leases into which a budget is divided. A process that takes a lease and does not use it makes the limit
/// stricter by one such part.
const LEASES: u64 = 32;

/// A rate, whose budget is a point in time at which it is full again (the theoretical arrival time of the generic
/// cell rate algorithm). Times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// The time in which the budget for one call is replenished.
    pub(super) interval: u64,
    /// The number of calls in a full budget.
    pub(super) burst: u64,
    /// The number of calls that a process takes at a time, unless more wait.
    pub(super) lease: u64,
}

impl Rate {
    pub(super) fn new(quota: Quota) -> Self {
        let burst = u64::from(quota.burst_size().get());
        let interval = u64::try_from(quota.replenish_interval().as_nanos()).unwrap_or(u64::MAX).clamp(1, MAX_PERIOD);
        Self { interval, burst, lease: (burst / LEASES).max(1) }
    }

    /// Returns the time in which an empty budget becomes full.
    pub(super) fn period(self) -> u64 {
        self.interval.saturating_mul(self.burst).min(MAX_PERIOD)
    }

    /// Returns the time that calls take from a budget.
    pub(super) fn cost(self, calls: u64) -> u64 {
        self.interval.saturating_mul(calls).min(MAX_PERIOD)
    }

    /// Returns when a budget is full again, for one that is used from now on. A budget that seems to be more than empty,
    /// because the clock was set back, is empty.
    pub(super) fn start(self, full_at: u64, now: u64) -> u64 {
        full_at.clamp(now, now + self.period())
    }

    /// Returns the earliest time at which a process can have written this `full_at`.
    pub(super) fn written_after(self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.period())
    }

    /// Returns the number of calls that a budget allows now.
    pub(super) fn available(self, full_at: u64, now: u64) -> u64 {
        (now + self.period()).saturating_sub(full_at.max(now)) / self.interval
    }

    /// Returns when a budget allows this number of calls.
    pub(super) fn available_at(self, full_at: u64, calls: u64) -> u64 {
        (full_at + self.cost(calls)).saturating_sub(self.period())
    }
}
