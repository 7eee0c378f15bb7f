//! The rate of a layer, and counting the calls of this process.

use std::time::Duration;

use tokio::time::Instant;

use crate::{backend::time::nanos, engine::Bucket};

/// The longest period of a budget in nanoseconds, ten years, so that sums of times do not overflow.
pub(super) const MAX_PERIOD: u64 = 10 * 365 * 24 * 3600 * 1_000_000_000;

/// The rate of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// The time in which the budget for one call is replenished, in nanoseconds.
    pub(super) interval: u64,
    /// The number of calls in a full budget.
    pub(super) burst: u64,
    /// The time at which the layer was created, measured by tokio's clock.
    created: Instant,
}

impl Rate {
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval: nanos(interval).clamp(1, MAX_PERIOD), burst: burst.into(), created: Instant::now() }
    }

    /// Returns a full budget, for the calls of this process.
    pub(super) fn budget(self) -> Bucket {
        let interval = Duration::from_nanos(self.interval);
        Bucket::new(interval, Duration::from_nanos(self.interval.saturating_mul(self.burst)))
    }

    /// Counts a call of this process. Returns the time to wait if the rate is exceeded.
    pub(super) fn check(self, budget: &Bucket) -> Result<(), Duration> {
        budget.admit_at(nanos(self.created.elapsed())).map_err(|excess| excess.wait)
    }
}
