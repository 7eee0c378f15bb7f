use std::time::Duration;

use tokio::time::Instant;

use super::retry::{MAX_RETRY, MIN_RETRY};
use crate::backend::BackendError;

/// The time for which the output of a call waits for a failing backend. After this time, the output is sent without ids
/// once another attempt to write it has failed, which takes a few seconds at most.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// The time since which the log of a stream cannot be written.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    retry: Duration,
    /// The time of the next attempt.
    pub(super) retry_at: Instant,
    /// Whether output no longer waits for the backend.
    pub(super) is_long: bool,
}

impl Outage {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, retry: MIN_RETRY, retry_at: since, is_long: false }
    }

    /// Records an attempt that has failed.
    pub(super) fn failed(&mut self, error: &BackendError) {
        let now = Instant::now();
        self.retry_at = now + self.retry;
        self.retry = (self.retry * 2).min(MAX_RETRY);
        if !self.is_long && (*error == BackendError::Full || self.since.elapsed() >= MAX_DELAY) {
            self.is_long = true;
            tracing::warn!(%error, "events are sent without ids: the backend is full or has failed");
        } else {
            tracing::debug!(%error, "cannot write an event stream to the backend");
        }
    }

    /// Returns the time since the first attempt that has failed.
    pub(super) fn duration(&self) -> Duration {
        self.since.elapsed()
    }
}
