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

    /// Returns the pause after the last attempt, which is long after several failures.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// The time before each attempt, and the pause after it, in milliseconds.
    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_attempts_follow_each_other() {
        let failures =
            [(0, 500), (500, 1000), (1000, 2000), (2000, 4000), (4000, 8000), (8000, 16_000), (16_000, 30_000)];
        for (case, error, steps) in [
            ("failures", Some("failed"), failures.as_slice()),
            ("failures that are rare", Some("failed"), &[(0, 500), (59_999, 1000), (60_000, 500)]),
            ("connections that end soon", None, &[(0, 500), (5000, 1000), (1000, 2000), (6999, 4000), (9000, 500)]),
        ] {
            let mut attempts = Attempts::default();
            for (before, pause) in steps {
                advance(Duration::from_millis(*before)).await;
                attempts.record(error);
                assert_eq!(attempts.wait(), Duration::from_millis(*pause), "{case}");
            }
        }
    }
}
