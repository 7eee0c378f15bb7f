//! The trait of the stores that the processes of one service share.

use std::{error::Error, fmt, pin::Pin};

use super::{logs::Logs, records::Records, topics::Topics};

/// The future that every method of a [`Backend`] returns.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// What the processes of one service share: [`Records`], [`Logs`] and [`Topics`]. Implemented by every type that
/// implements the three.
///
/// A backend knows only bytes. What a session, an event stream or a task is, is decided by the runtime.
///
/// ```
/// use mcp_runtime::{Backend, MemoryBackend};
///
/// fn shared(backend: &dyn Backend) {
///     println!("{backend:?}");
/// }
///
/// shared(&MemoryBackend::default());
/// ```
pub trait Backend: Records + Logs + Topics {}

impl<T: Records + Logs + Topics + ?Sized> Backend for T {}

/// The error of an operation of a [`Backend`]. It is logged and not shown to clients.
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
