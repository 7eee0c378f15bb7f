//! Errors of backends, and the response to requests that need a backend that fails.

use std::{error::Error, fmt, pin::Pin};

use crate::{counters::Warnings, error::Fault};

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
            Self::Full => f.write_str("the backend is full (Redis has reached `maxmemory`), or a value is too long"),
            Self::Unavailable(reason) => write!(f, "the backend is unavailable: {reason}"),
        }
    }
}

impl Error for BackendError {}

/// Returns the fault of a request that needs the backend. The client may retry it: over HTTP, the status is 503 with
/// `Retry-After`.
///
/// The reason is logged, at most once in ten seconds, and not sent to the client.
impl From<BackendError> for Fault {
    fn from(error: BackendError) -> Self {
        static WARNINGS: Warnings = Warnings::new();
        if WARNINGS.is_due() {
            tracing::warn!(%error, "requests fail, because the backend does");
        }
        Self::overloaded("the server cannot reach the state that it shares with other processes: retry later")
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
