use std::{fmt, io};

use crate::error::BuildError;

/// An error that ends [`Server::serve`](crate::Server::serve) or [`Server::serve_stdio`](crate::Server::serve_stdio).
///
/// ```
/// use mcp_runtime::{ServeError, Server};
///
/// # #[allow(dead_code)]
/// async fn run(server: Server) -> std::io::Result<()> {
///     match server.serve_stdio().await {
///         Ok(()) => Ok(()),
///         Err(ServeError::Io(error)) => Err(error),
///         Err(error) => Err(std::io::Error::other(error)),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot be built.
    Build(BuildError),
    /// A stream failed.
    Io(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Io(error) => write!(f, "connection failed: {error}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(_) => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<BuildError> for ServeError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
