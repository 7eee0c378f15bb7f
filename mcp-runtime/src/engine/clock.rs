use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// The time as a connection read it last: a transport sets it when a message comes, and a call reads it when its function ends. Reading it
/// takes as long as a good part of a small call, so that nobody in between does.
#[derive(Debug)]
pub(super) struct Clock(Cell<Instant>);

impl Clock {
    pub(super) fn new(now: Instant) -> Self {
        Self(Cell::new(now))
    }

    pub(super) fn set(&self, now: Instant) {
        self.0.set(now);
    }

    pub(super) fn last(&self) -> Instant {
        self.0.get()
    }

    /// Reads the time, and tells how long it has been since it was read before.
    pub(super) fn lap(&self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(self.0.replace(now))
    }
}
