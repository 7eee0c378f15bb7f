use std::{error, fmt};

/// The error of [`Redis::connect`](crate::Redis::connect).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The URL or an option is invalid.
    Invalid(String),
    /// The server does not respond, or rejects the connection.
    Unavailable(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) => f.write_str(reason),
            Self::Unavailable(reason) => write!(f, "cannot connect to Redis: {reason}"),
        }
    }
}

impl error::Error for Error {}
