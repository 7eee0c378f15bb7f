//! Errors of backends, the time within which a backend must respond, the pause between attempts, and the response to
//! requests that need a backend that fails.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::error::Fault;

/// The future that every method of a [`Backend`](crate::backend::Backend) returns.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// The error of an operation of a [`Backend`](crate::backend::Backend). It is logged and not shown to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend is full, or the value or its key is too long. Nothing was changed.
    Full,
    /// The backend does not respond, or failed.
    Unavailable(String),
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the backend is full"),
            Self::Unavailable(reason) => write!(f, "the backend is unavailable: {reason}"),
        }
    }
}

impl Error for BackendError {}

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

/// The minimum time between two warnings about requests that failed.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the fault of a request that needs the backend. The client may retry it: over HTTP, the status is 503 with
/// `Retry-After`.
///
/// The reason is logged, at most once in ten seconds, and not sent to the client.
impl From<BackendError> for Fault {
    fn from(error: BackendError) -> Self {
        static LAST_WARNING: Mutex<Option<Instant>> = Mutex::new(None);
        let mut last_warning = LAST_WARNING.lock().unwrap_or_else(PoisonError::into_inner);
        if last_warning.is_none_or(|at| at.elapsed() > WARNING_INTERVAL) {
            *last_warning = Some(Instant::now());
            tracing::warn!(%error, "requests fail, because the backend does");
        }
        Self::overloaded("the server cannot reach the state that it shares with other processes: retry later")
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
    #[cfg(feature = "cluster")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_may_retry_and_do_not_learn_the_reason() {
        for error in [BackendError::Full, BackendError::Unavailable("redis.internal refused".to_owned())] {
            assert!(matches!(Fault::from(error), Fault::Overloaded(message) if !message.contains("redis")));
        }
    }
}
