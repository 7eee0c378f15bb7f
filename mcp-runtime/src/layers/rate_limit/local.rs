//! Counting the calls of this process.

use std::{sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use lru::LruCache;
use tokio::time::Instant;

use crate::mutex::Mutex;

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
        let mut limiters = self.0.lock();
        let limiter = Arc::clone(limiters.get_or_insert(key, || Arc::new(make())));
        if limiters.len() > max_keys {
            limiters.pop_lru();
        }
        limiter
    }
}
