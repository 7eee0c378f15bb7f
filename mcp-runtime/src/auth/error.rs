use std::{borrow::Cow, fmt, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::challenge::Challenge;

/// Why an [`Authenticator`](crate::auth::Authenticator) could not identify the sender of a request.
///
/// | kind | status | challenge |
/// | --- | --- | --- |
/// | [`missing`](Self::missing) | 401 | without an error |
/// | [`invalid`](Self::invalid) | 401 | `error="invalid_token"` |
/// | [`malformed`](Self::malformed) | 400 | `error="invalid_request"` |
/// | [`unavailable`](Self::unavailable) | 503 | none; `Retry-After` |
///
/// The client receives the message as `error_description`, so it must contain neither secrets nor anything about the
/// issuer's or the server's internals; characters that are not allowed there are replaced. Details that only the
/// operator may know go to the log with [`with_detail`](Self::with_detail).
///
/// ```
/// use mcp_runtime::auth::{AuthenticationError, Challenge};
///
/// let error = AuthenticationError::invalid("the proof must contain a nonce")
///     .with_challenge(Challenge::new("DPoP").with_parameter("error", "use_dpop_nonce"))
///     .with_response_header(
///         http::HeaderName::from_static("dpop-nonce"),
///         http::HeaderValue::from_static("eyJ7S_zG.eyJH0-Z.HX4w-7v"),
///     );
/// assert_eq!(error.message(), "the proof must contain a nonce");
/// ```
///
/// See [Error handling](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling).
#[derive(Debug, Clone)]
#[must_use]
pub struct AuthenticationError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: AuthenticationErrorKind,
    message: Cow<'static, str>,
    detail: Option<String>,
    challenges: Vec<Challenge>,
    response_headers: HeaderMap,
}

/// The kind of an [`AuthenticationError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthenticationErrorKind {
    /// The request has no credentials.
    Missing,
    /// The request has credentials that cannot be read.
    Malformed,
    /// The credentials are wrong, expired, revoked, or intended for another resource.
    Invalid,
    /// It is temporarily unknown whether the credentials are valid.
    #[non_exhaustive]
    Unavailable {
        /// The time after which the client may retry.
        retry_after: Duration,
    },
}

impl AuthenticationError {
    /// The request has no credentials of the kind that the authenticator accepts.
    pub fn missing() -> Self {
        Self::of_kind(AuthenticationErrorKind::Missing, Cow::Borrowed("authentication is required"))
    }

    /// The request has credentials that cannot be read, such as a header of the wrong form.
    pub fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_kind(AuthenticationErrorKind::Malformed, message.into())
    }

    /// The credentials are wrong, expired, revoked, or intended for another resource.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_kind(AuthenticationErrorKind::Invalid, message.into())
    }

    /// It is temporarily unknown whether the credentials are valid, for example because the issuer does not respond.
    /// The client may retry after the given time, which is rounded up to seconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_runtime::auth::AuthenticationError;
    ///
    /// let error = AuthenticationError::unavailable(Duration::from_secs(5), "the keys cannot be verified at the moment")
    ///     .with_detail("connection to id.example.com refused");
    /// assert_eq!(error.detail(), Some("connection to id.example.com refused"));
    /// ```
    pub fn unavailable(retry_after: Duration, message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_kind(AuthenticationErrorKind::Unavailable { retry_after }, message.into())
    }

    fn of_kind(kind: AuthenticationErrorKind, message: Cow<'static, str>) -> Self {
        let (challenges, response_headers) = (Vec::new(), HeaderMap::new());
        Self(Box::new(Inner { kind, message, detail: None, challenges, response_headers }))
    }

    /// Sets what is logged in addition to the message, such as the cause. It must not contain credentials.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a challenge, or parameters to the challenge of the same scheme that the runtime would send anyway. The
    /// runtime adds `resource_metadata` and `scope`.
    pub fn with_challenge(mut self, challenge: Challenge) -> Self {
        self.0.challenges.push(challenge);
        self
    }

    /// Adds a header to the response.
    pub fn with_response_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.response_headers.append(name, value);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> AuthenticationErrorKind {
        self.0.kind
    }

    /// Returns the message, which the client receives.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns what is logged in addition to the message.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns the challenges that were added.
    pub fn challenges(&self) -> &[Challenge] {
        &self.0.challenges
    }

    /// Returns the headers for the response.
    pub fn response_headers(&self) -> &HeaderMap {
        &self.0.response_headers
    }
}

/// Displays the message without the detail.
impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for AuthenticationError {}
