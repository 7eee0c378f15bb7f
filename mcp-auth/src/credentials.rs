//! The credentials of an `Authorization` header.

use http::request::Parts;
use mcp_runtime::auth::{AuthenticationError, AuthenticationErrorKind, credentials};

/// The maximum size of a token in bytes. The runtime rejects longer ones, too.
const MAX_TOKEN: usize = 16 * 1024;

/// The scheme and token of an `Authorization` header.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) token: &'a str,
}

/// A scheme that carries an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Bearer,
    Dpop,
}

impl<'a> Credentials<'a> {
    /// Reads the credentials of a request. Schemes other than those of [`Scheme`] are no credentials.
    ///
    /// # Errors
    ///
    /// Returns [`missing`](AuthenticationError::missing) without credentials, and an error if they are malformed or too
    /// long.
    pub(crate) fn of(request: &'a Parts) -> Result<Self, AuthenticationError> {
        let (scheme, token) = match credentials(request, "Bearer") {
            Err(error) if error.kind() == AuthenticationErrorKind::Missing => {
                (Scheme::Dpop, credentials(request, "DPoP")?)
            }
            token => (Scheme::Bearer, token?),
        };
        if token.len() > MAX_TOKEN {
            return Err(AuthenticationError::invalid("the token is longer than 16 KiB"));
        }
        Ok(Self { scheme, token })
    }
}
