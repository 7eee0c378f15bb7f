//! How long everything that needs a backend waits for it, and when it tries again.

use std::time::Duration;

#[cfg(feature = "cluster")]
use tokio::time::Instant;

use super::BackendError;
#[cfg(feature = "cluster")]
use crate::mutex::Mutex;

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
    #[cfg(any(feature = "cluster", feature = "http"))]
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
#[cfg(feature = "cluster")]
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    /// The time between two attempts.
    pause: Duration,
    /// The time of the next attempt. `None` if the backend has responded.
    retry_at: Mutex<Option<Instant>>,
}

/// Whether a backend is to be asked.
#[cfg(feature = "cluster")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Up,
    /// It has failed, and the caller is to try again.
    Retry,
    Down,
}

#[cfg(feature = "cluster")]
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

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;

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
}
