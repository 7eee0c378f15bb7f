//! The clock of a backend, by which all processes agree on the time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::backend::{Backend, BackendError};

/// The time after which the backend is asked again, since clocks run at slightly different speeds.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Backends tell the time in milliseconds.
const PRECISION: Duration = Duration::from_millis(1);

/// An estimate of the backend's clock. It is late by at most the time of one request.
#[derive(Debug, Default)]
pub(super) struct BackendClock {
    measured: Mutex<Option<(u64, Instant)>>,
    /// Held while the backend is asked.
    asking: tokio::sync::Mutex<()>,
}

impl BackendClock {
    /// Returns the nanoseconds since the Unix epoch, or 0 if the backend has never been asked.
    pub(super) fn now(&self) -> u64 {
        self.measured().map_or(0, |(time, at)| time + nanos(at.elapsed()))
    }

    /// Asks the backend if that has not happened for a while, or if the estimate is earlier than `earliest`, a time that
    /// the backend's clock has already passed.
    pub(super) async fn update(&self, backend: &dyn Backend, earliest: u64) -> Result<(), BackendError> {
        let _asking = self.asking.lock().await;
        if self.measured().is_none_or(|(_, at)| at.elapsed() > MAX_AGE) || self.now() + nanos(PRECISION) < earliest {
            let time = Duration::from_millis(backend.now().await?.as_unix_millis());
            *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some((nanos(time), Instant::now()));
        }
        Ok(())
    }

    fn measured(&self) -> Option<(u64, Instant)> {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the nanoseconds of a duration, which are limited so that sums do not overflow.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}
