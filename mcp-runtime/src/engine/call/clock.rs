use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The time at which a connection last read the system clock.
///
/// Reading the system clock is a considerable part of the cost of a small call. The transport therefore reads it when a
/// message arrives, and a call reads it when its function returns. The work between the previous reading and a call is
/// counted as part of the call.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The nanoseconds since `start`, which overflow only after centuries.
    elapsed: AtomicU64,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, elapsed: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, now: Instant) {
        self.elapsed.store(self.nanos(now), Ordering::Relaxed);
    }

    /// Returns the time of the last reading.
    pub(crate) fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Reads the system clock, and returns the time since the previous reading.
    pub(crate) fn lap(&self) -> Duration {
        let (before, now) = (self.elapsed.load(Ordering::Relaxed), self.nanos(Instant::now()));
        self.elapsed.store(now, Ordering::Relaxed);
        Duration::from_nanos(now.saturating_sub(before))
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}
