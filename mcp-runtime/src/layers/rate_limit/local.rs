//! Counting the calls of this process.

use std::{sync::Arc, time::Duration};

use lru::LruCache;
use tokio::time::Instant;

use crate::{backend::time::nanos, engine::Bucket, stdx::Mutex};

/// The rate of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    /// The time in which the budget for one call is replenished.
    pub(super) interval: Duration,
    /// The number of calls in a full budget.
    pub(super) burst: u32,
}

/// The time since the layer was created, measured by tokio's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uptime(Instant);

impl Uptime {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Counts a call. Returns the time to wait if the rate is exceeded.
    pub(super) fn check(self, budget: &Bucket) -> Result<(), Duration> {
        budget.admit_at(nanos(self.0.elapsed())).map_err(|excess| excess.wait)
    }
}

impl Quota {
    pub(super) fn budget(self) -> Bucket {
        Bucket::new(self.interval, self.interval.saturating_mul(self.burst))
    }
}

/// The budgets that this process does not share.
pub(super) struct LocalBudgets(Mutex<LruCache<String, Arc<Bucket>>>);

impl LocalBudgets {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }

    pub(super) fn of(&self, key: String, max_keys: usize, quota: Quota) -> Arc<Bucket> {
        let mut budgets = self.0.lock();
        let budget = Arc::clone(budgets.get_or_insert(key, || Arc::new(quota.budget())));
        if budgets.len() > max_keys {
            budgets.pop_lru();
        }
        budget
    }
}
