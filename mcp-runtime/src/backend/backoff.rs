//! The pauses between attempts to reach a backend that fails.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double, from 100 milliseconds to 5 seconds unless another maximum is set.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Creates pauses of at most this length.
    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { longest, ..Self::default() }
    }

    /// Returns the time to wait before the next attempt, which doubles with each call.
    pub(crate) fn next(&mut self) -> Duration {
        let next = self.next;
        self.next = self.longest.min(next * 2);
        next
    }

    /// Waits before the next attempt. Each call waits twice as long as the one before.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// Returns whether no attempt has failed since the last success.
    pub(crate) fn is_reset(&self) -> bool {
        self.next == FIRST
    }

    /// Records a success: the next pause is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }
}
