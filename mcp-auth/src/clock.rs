//! The time, which tests can shift.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of the system. Clones share the shift of a test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    #[cfg(test)]
    shift: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Clock {
    /// Returns the time since the Unix epoch, in seconds, as tokens state it.
    pub(crate) fn unix(&self) -> f64 {
        self.system().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    pub(crate) fn system(&self) -> SystemTime {
        SystemTime::now() + self.shift()
    }

    /// Returns the time that measures ages. It never goes back.
    pub(crate) fn monotonic(&self) -> Instant {
        Instant::now() + self.shift()
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests shift the clock")]
    fn shift(&self) -> Duration {
        Duration::ZERO
    }

    #[cfg(test)]
    fn shift(&self) -> Duration {
        Duration::from_millis(self.shift.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Moves both times forward.
    #[cfg(test)]
    pub(crate) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).expect("tests advance the clock by days at most");
        self.shift.fetch_add(by, std::sync::atomic::Ordering::Relaxed);
    }
}
