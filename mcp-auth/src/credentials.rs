//! The credentials of an `Authorization` header.

use http::{header::AUTHORIZATION, request::Parts};
use mcp_runtime::AuthenticationError;

/// The maximum size of a token in bytes.
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
    /// Returns [`missing`](AuthenticationError::missing) without credentials, and an error if the header is malformed or
    /// the token is too long.
    pub(crate) fn of(request: &'a Parts) -> Result<Self, AuthenticationError> {
        let mut headers = request.headers.get_all(AUTHORIZATION).iter();
        let header = headers.next().ok_or_else(AuthenticationError::missing)?;
        if headers.next().is_some() {
            return Err(AuthenticationError::malformed("expected one `Authorization` header"));
        }
        let header =
            header.to_str().map_err(|_| AuthenticationError::malformed("the `Authorization` header is not ASCII"))?;
        let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
        let scheme = match scheme {
            scheme if scheme.eq_ignore_ascii_case("Bearer") => Scheme::Bearer,
            scheme if scheme.eq_ignore_ascii_case("DPoP") => Scheme::Dpop,
            _ => return Err(AuthenticationError::missing()),
        };
        let token = token.trim_matches(' ');
        if token.is_empty() || !is_token68(token) {
            return Err(AuthenticationError::malformed("expected one token in the `Authorization` header"));
        }
        if token.len() > MAX_TOKEN {
            return Err(AuthenticationError::invalid("the token is longer than 16 KiB"));
        }
        Ok(Self { scheme, token })
    }
}

/// Returns whether the text is a `b64token` of [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750#section-2.1).
fn is_token68(text: &str) -> bool {
    let token = text.trim_end_matches('=');
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}
