//! Operations of a backend that may be slow or gone.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::backend::BackendError;
use crate::error::Fault;

/// The time within which a backend must complete an operation. Waiting for news takes longer and is no such operation.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The minimum time between two warnings about requests that failed.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for an operation of a backend, for at most [`RESPONSE_TIMEOUT`].
///
/// # Errors
///
/// Returns the error of the operation, or [`BackendError::Unavailable`] if it takes too long. Whether a change has
/// been made is then unknown.
pub(crate) async fn in_time<T>(operation: impl Future<Output = Result<T, BackendError>>) -> Result<T, BackendError> {
    let no_response = || BackendError::Unavailable(format!("no response within {RESPONSE_TIMEOUT:?}"));
    tokio::time::timeout(RESPONSE_TIMEOUT, operation).await.unwrap_or_else(|_| Err(no_response()))
}

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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn operations_fail_when_the_backend_does_not_respond() {
        assert_eq!(in_time(ready(Ok(1))).await, Ok(1));
        assert_eq!(in_time(ready(Err::<(), _>(BackendError::Full))).await, Err(BackendError::Full));
        let slow = async {
            tokio::time::sleep(RESPONSE_TIMEOUT / 2).await;
            Ok(2)
        };
        assert_eq!(in_time(slow).await, Ok(2));
        let error = in_time(pending::<Result<(), _>>()).await.unwrap_err();
        assert_eq!(error.to_string(), "the backend is unavailable: no response within 2s");
        assert!(matches!(Fault::from(error), Fault::Overloaded(message) if !message.contains("2s")));
    }
}
