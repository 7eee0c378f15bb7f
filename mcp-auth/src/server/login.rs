//! The login of a user at the provider.

use std::fmt;

use mcp_runtime::backend::BackendError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::random;
use crate::{Error, fetch::FetchError};

/// A user who has logged in.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) subject: String,
    pub(super) claims: Map<String, Value>,
    pub(super) tokens: Tokens,
}

/// The tokens of a user at the provider.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// Seconds since the Unix epoch.
    pub(super) expires: Option<f64>,
}

/// A login in progress.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
}

/// Why a request to the provider was not successful.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UpstreamError {
    /// The provider has refused what the request presents: a code or a token.
    Refused(String),
    /// The provider does not respond, or not as it should.
    Unavailable(String),
}

impl From<FetchError> for UpstreamError {
    fn from(error: FetchError) -> Self {
        Self::Unavailable(error.reason)
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "the provider refused: {reason}"),
            Self::Unavailable(reason) => write!(f, "the provider is unavailable: {reason}"),
        }
    }
}

/// Why there is no token of a user at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamTokenError {
    /// The caller has not logged in at the provider: it is a machine, or identified in another way.
    NoLogin,
    /// The login has ended. The client has to authorize again.
    Ended,
    /// The provider or the store does not respond.
    Unavailable,
    /// The provider does not exchange the token of the user for this service and these scopes.
    Refused,
}

impl fmt::Display for UpstreamTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLogin => "the caller has not logged in at the provider",
            Self::Ended => "the login at the provider has ended: authorize again",
            Self::Unavailable => "the token of the provider is temporarily unavailable",
            Self::Refused => "the provider issues no token for this service",
        })
    }
}

impl std::error::Error for UpstreamTokenError {}

impl From<BackendError> for UpstreamTokenError {
    fn from(error: BackendError) -> Self {
        tracing::error!(%error, "the token of a user at the provider cannot be read");
        Self::Unavailable
    }
}

/// Returns the session at the provider that an identity token states.
pub(super) fn session_of(claims: &Map<String, Value>) -> Option<&str> {
    claims.get("sid").and_then(Value::as_str)
}

impl Attempt {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self { state: random::token()?, nonce: random::token()?, verifier: random::token()? })
    }
}

/// Omits the tokens.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("expires", &self.expires).finish_non_exhaustive()
    }
}
