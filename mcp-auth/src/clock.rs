//! The time, which tests can shift.

#![cfg_attr(not(feature = "server"), allow(dead_code, reason = "only the authorization server follows a store"))]

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcp_runtime::backend::{BackendError, Records};

/// The time after which the clock of a store is read again.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The clock of the system, or of the store that [`follow`](Self::follow) reads. Clones share the store and the shift of a
/// test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    store: Arc<StoreClock>,
    #[cfg(test)]
    shift: Arc<std::sync::atomic::AtomicU64>,
}

/// The difference between the clocks of the store and of the system.
#[derive(Debug, Default)]
struct StoreClock {
    ahead_millis: AtomicI64,
    read_at: Mutex<Option<Instant>>,
}

impl Clock {
    /// Returns the time since the Unix epoch, in seconds, as tokens state it.
    pub(crate) fn unix(&self) -> f64 {
        self.system().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    pub(crate) fn system(&self) -> SystemTime {
        let ahead = self.store.ahead_millis.load(Ordering::Relaxed);
        let difference = Duration::from_millis(ahead.unsigned_abs());
        let now = SystemTime::now() + self.shift();
        if ahead < 0 { now - difference } else { now + difference }
    }

    /// Returns the time that measures ages. It never goes back.
    pub(crate) fn monotonic(&self) -> Instant {
        Instant::now() + self.shift()
    }

    /// Sets the clock to that of a store, unless it was read in the last minute: processes that share the store compare
    /// the times that they keep there.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails. The last known difference remains in use.
    pub(crate) async fn follow(&self, store: &dyn Records) -> Result<(), BackendError> {
        let read_at = || self.store.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = self.monotonic();
        if read_at().is_some_and(|at| asked.saturating_duration_since(at) < MAX_AGE) {
            return Ok(());
        }
        let time = store.now().await?.as_unix_millis();
        let own = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let millis = |time: u128| i64::try_from(time).unwrap_or(i64::MAX);
        self.store.ahead_millis.store(millis(time.into()) - millis(own), Ordering::Relaxed);
        *read_at() = Some(asked);
        Ok(())
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests shift the clock")]
    fn shift(&self) -> Duration {
        Duration::ZERO
    }

    #[cfg(test)]
    fn shift(&self) -> Duration {
        Duration::from_millis(self.shift.load(Ordering::Relaxed))
    }

    /// Returns the clock of the system, with the shift of this one.
    #[cfg(test)]
    pub(crate) fn of_system(&self) -> Self {
        Self { store: Arc::default(), shift: Arc::clone(&self.shift) }
    }

    /// Moves both times forward.
    #[cfg(test)]
    pub(crate) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).expect("tests advance the clock by days at most");
        self.shift.fetch_add(by, Ordering::Relaxed);
    }
}
