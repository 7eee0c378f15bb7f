//! The time within which a backend must respond.

use std::time::Duration;

use super::error::BackendError;

/// The time after which a backend that does not respond counts as unavailable.
pub(crate) const BACKEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for an operation of a backend, or for several in a row, for at most [`BACKEND_TIMEOUT`].
///
/// # Errors
///
/// Returns the error of the operation, or [`BackendError::Unavailable`] if the backend does not respond in time. In
/// both cases, a change may still take effect, unless the error is [`BackendError::Full`].
pub(crate) async fn respond<T, E: From<BackendError>>(operation: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match tokio::time::timeout(BACKEND_TIMEOUT, operation).await {
        Ok(result) => result,
        Err(_) => Err(BackendError::Unavailable(format!("no response within {BACKEND_TIMEOUT:?}")).into()),
    }
}
