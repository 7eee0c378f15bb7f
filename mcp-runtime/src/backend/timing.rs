//! Time in the use of a backend: how long an operation may take, when it is tried again, and the time by its clock.

use std::time::Duration;

use tokio::time::Instant;

use super::{Backend, Timestamp, error::BackendError, time::nanos};
use crate::stdx::Mutex;

/// The time after which a backend that does not respond counts as unavailable.
pub(crate) const BACKEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for an operation of a backend, or for several in a row, for at most [`BACKEND_TIMEOUT`].
///
/// # Errors
///
/// Returns the error of the operation, or [`BackendError::Unavailable`] if the backend does not respond in time. In
/// both cases, a change may still take effect, unless the error is [`BackendError::Full`].
pub(crate) async fn with_timeout<T, E: From<BackendError>>(
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(BACKEND_TIMEOUT, operation).await {
        Ok(result) => result,
        Err(_) => Err(BackendError::Unavailable(format!("no response within {BACKEND_TIMEOUT:?}")).into()),
    }
}

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

/// Keeps callers from waiting for a backend that has just failed. After a failure, one of them tries again at a time.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    /// The time between two attempts.
    pause: Duration,
    /// The time of the next attempt. `None` if the backend has responded.
    retry_at: Mutex<Option<Instant>>,
}

/// Whether a backend is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Up,
    /// It has failed, and the caller is to try again.
    Retry,
    Down,
}

impl CircuitBreaker {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, retry_at: Mutex::default() }
    }

    pub(crate) fn availability(&self) -> Availability {
        let (mut retry_at, now) = (self.retry_at.lock(), Instant::now());
        match *retry_at {
            None => Availability::Up,
            Some(at) if now < at => Availability::Down,
            Some(_) => {
                *retry_at = Some(now + self.pause);
                Availability::Retry
            }
        }
    }

    /// Records whether the backend has responded. Returns whether that was unknown.
    pub(crate) fn record(&self, has_responded: bool) -> bool {
        let retry_at = (!has_responded).then(|| Instant::now() + self.pause);
        let before = std::mem::replace(&mut *self.retry_at.lock(), retry_at);
        before.is_none() != has_responded
    }
}

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

    /// After a failure, one of many callers tries again, once per pause.
    #[tokio::test(start_paused = true)]
    async fn one_caller_at_a_time_tries_again() {
        use Availability::{Down, Retry, Up};
        let pause = Duration::from_secs(5);
        let breaker = CircuitBreaker::new(pause);
        let three = || [(); 3].map(|()| breaker.availability());
        assert_eq!(three(), [Up; 3]);
        assert!(breaker.record(false) && !breaker.record(false));
        for _ in 0..3 {
            assert_eq!(three(), [Down; 3]);
            tokio::time::advance(pause - Duration::from_millis(1)).await;
            assert_eq!(three(), [Down; 3]);
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(three(), [Retry, Down, Down]);
        }
        assert!(breaker.record(true) && !breaker.record(true));
        assert_eq!(three(), [Up; 3]);
    }

    #[test]
    fn pauses_double_up_to_the_longest_one() {
        for (mut backoff, pauses) in [
            (Backoff::default(), &[100, 200, 400, 800, 1600, 3200, 5000, 5000][..]),
            (Backoff::up_to(Duration::from_millis(300)), &[100, 200, 300, 300]),
        ] {
            for _ in 0..2 {
                assert!(backoff.is_reset());
                assert!(pauses.iter().all(|pause| backoff.next().as_millis() == *pause), "{pauses:?}");
                assert!(!backoff.is_reset());
                backoff.reset();
            }
        }
    }

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
