//! The pauses between attempts.

use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How long a connection or a subscription must live so that the attempt counts as a success.
const STABLE: Duration = Duration::from_secs(5);

/// The attempts to open a connection, or to subscribe on it.
#[derive(Default)]
pub(crate) struct Attempts {
    pause: Duration,
    pub(crate) last: Option<Instant>,
    pub(crate) error: Option<&'static str>,
}

impl Attempts {
    /// Returns how long the next attempt must wait.
    pub(crate) fn wait(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| self.pause.saturating_sub(last.elapsed()))
    }

    /// Records an attempt. The pause grows while attempts fail, and while connections end soon after they were opened: a program
    /// may end whenever it has been started.
    pub(crate) fn record(&mut self, error: Option<&'static str>) {
        let (first, longest) = PAUSES;
        let limit = if self.error.is_some() { 2 * longest } else { self.pause + STABLE };
        let is_repeated = self.last.is_some_and(|last| last.elapsed() < limit);
        self.pause = if is_repeated { (self.pause * 2).clamp(first, longest) } else { first };
        self.last = Some(Instant::now());
        self.error = error;
    }
}
