//! Errors and results of backends.

use std::{error::Error, fmt, pin::Pin};

/// The future that every method of a [`Backend`](crate::Backend) returns.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// The error of an operation of a [`Backend`](crate::Backend). It is logged and not shown to clients.
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
