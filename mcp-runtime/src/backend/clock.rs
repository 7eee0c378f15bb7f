//! The clock of a backend, by which all processes agree on the time.

use std::time::Duration;

use tokio::time::Instant;

use super::{Backend, Timestamp, error::BackendError, time::nanos};
use crate::mutex::Mutex;

/// The time after which the backend is asked again, since clocks run at slightly different speeds.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Backends tell the time in milliseconds.
const PRECISION: Duration = Duration::from_millis(1);

/// An estimate of the backend's clock. It is late by at most the time of one request.
///
/// The clocks of the machines may differ, so every time that one process stores and another process compares is
/// measured with this clock.
#[derive(Debug, Default)]
pub(crate) struct BackendClock {
    measured: Mutex<Option<(u64, Instant)>>,
    /// Held while the backend is asked.
    asking: tokio::sync::Mutex<()>,
}

impl BackendClock {
    /// Returns the current time, or the time of this machine if the backend has never been asked.
    pub(crate) fn now(&self) -> Timestamp {
        if self.measured().is_some() { Timestamp::from_unix_millis(self.nanos() / 1_000_000) } else { Timestamp::now() }
    }

    /// Returns the nanoseconds since the Unix epoch, or 0 if the backend has never been asked.
    pub(crate) fn nanos(&self) -> u64 {
        self.measured().map_or(0, |(time, at)| time + nanos(at.elapsed()))
    }

    /// Asks the backend if that has not happened for a while, or if the estimate is earlier than `earliest` nanoseconds
    /// since the Unix epoch, a time that the backend's clock has already passed.
    pub(crate) async fn update(&self, backend: &dyn Backend, earliest: u64) -> Result<(), BackendError> {
        if !self.is_due(earliest) {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        if self.is_due(earliest) {
            let time = Duration::from_millis(backend.now().await?.as_unix_millis());
            *self.measured.lock() = Some((nanos(time), Instant::now()));
        }
        Ok(())
    }

    fn is_due(&self, earliest: u64) -> bool {
        self.measured().is_none_or(|(_, at)| at.elapsed() > MAX_AGE) || self.nanos() + nanos(PRECISION) < earliest
    }

    fn measured(&self) -> Option<(u64, Instant)> {
        *self.measured.lock()
    }
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;
    use crate::{
        backend::{MemoryBackend, Records as _},
        testing::test_backend::TestBackend,
    };

    #[tokio::test(start_paused = true)]
    async fn an_old_estimate_is_corrected() {
        let (backend, clock) = (TestBackend::<_, MemoryBackend>::new(()), BackendClock::default());
        clock.update(&backend, 0).await.unwrap();
        backend.set_clock_back(Duration::from_secs(5));
        for (time, is_corrected) in [(MAX_AGE, false), (PRECISION, true)] {
            tokio::time::advance(time).await;
            clock.update(&backend, 0).await.unwrap();
            assert_eq!(clock.now() <= backend.now().await.unwrap(), is_corrected, "{time:?}");
        }
    }
}
