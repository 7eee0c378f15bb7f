//! The pauses between attempts to reach a backend that fails.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double, from 100 milliseconds to 5 seconds.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// Waits before the next attempt. Each call waits twice as long as the one before.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = LONGEST.min(self.0 * 2);
    }

    /// Returns whether no attempt has failed since the last success.
    pub(crate) fn is_reset(&self) -> bool {
        self.0 == FIRST
    }

    /// Records a success: the next pause is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}
