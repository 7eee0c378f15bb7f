use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The time as a connection read it last: a transport sets it when a message comes, and a call reads it when its function ends. Reading it
/// takes as long as a good part of a small call, so that nobody in between does: what little came before a call in the same read is
/// counted as the call's.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    /// The nanoseconds since then: hundreds of years of them.
    elapsed: AtomicU64,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, elapsed: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, now: Instant) {
        self.elapsed.store(self.nanos(now), Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Instant {
        self.began + Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Reads the time, and tells how long it has been since it was read before.
    pub(crate) fn lap(&self) -> Duration {
        let (before, now) = (self.elapsed.load(Ordering::Relaxed), self.nanos(Instant::now()));
        self.elapsed.store(now, Ordering::Relaxed);
        Duration::from_nanos(now.saturating_sub(before))
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }
}
