//! Errors at startup.

use std::{fmt, path::PathBuf};

/// The error of creating an authenticator.
///
/// Each message names what is wrong and what was expected. It contains no secrets.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A URL is invalid, or is neither `https` nor on the loopback interface.
    Url {
        /// The URL as it was passed.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The metadata of an issuer could not be read.
    Discovery {
        /// The issuer.
        issuer: String,
        /// Each address that was tried, and what was wrong with its response.
        attempts: Vec<(String, String)>,
    },
    /// The keys of an issuer could not be read, or none of them can verify a token.
    Keys {
        /// Where the keys come from.
        source: String,
        /// The reason.
        reason: String,
    },
    /// The file of the API keys could not be read or understood.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An option is invalid, or what it names cannot be used.
    Options {
        /// The reason.
        reason: String,
    },
    /// The random number generator of the system failed.
    Random,
}

impl Error {
    pub(crate) fn url(url: &str, reason: impl Into<String>) -> Self {
        Self::Url { url: url.to_owned(), reason: reason.into() }
    }

    pub(crate) fn keys(source: &str, reason: impl Into<String>) -> Self {
        Self::Keys { source: source.to_owned(), reason: reason.into() }
    }

    #[cfg(feature = "server")]
    pub(crate) fn options(reason: impl Into<String>) -> Self {
        Self::Options { reason: reason.into() }
    }

    #[cfg(feature = "server")]
    pub(crate) fn records(error: mcp_runtime::backend::BackendError) -> Self {
        Self::options(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, reason } => write!(f, "the URL `{url}` {reason}"),
            Self::Discovery { issuer, attempts } => {
                write!(f, "no metadata of the issuer `{issuer}` found")?;
                attempts.iter().try_for_each(|(url, reason)| write!(f, "\n  `{url}`: {reason}"))
            }
            Self::Keys { source, reason } => write!(f, "no usable keys from `{source}`: {reason}"),
            Self::File { path, reason } => write!(f, "the API keys in `{}` are unusable: {reason}", path.display()),
            Self::Options { reason } => f.write_str(reason),
            Self::Random => f.write_str("the system has no random numbers"),
        }
    }
}

impl std::error::Error for Error {}
