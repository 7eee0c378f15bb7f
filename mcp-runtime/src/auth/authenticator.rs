//! Authenticators, which identify the sender of a request, and the reasons why they cannot.

use std::{borrow::Cow, fmt, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header::AUTHORIZATION, request::Parts};

use super::{
    identity::{Identity, Principal},
    protected_resource::{Challenge, ProtectedResource},
};
use crate::stdx::setters;

/// The future of [`Authenticator::authenticate`].
pub type AuthenticateFuture<'a> = Pin<Box<dyn Future<Output = Result<Identity, AuthenticationError>> + Send + 'a>>;

/// Identifies the sender of an HTTP request by its credentials.
///
/// An authenticator only identifies. The runtime does everything that follows, in the same way for every authenticator:
/// the responses 401 and 403 with their challenges, the metadata of the protected resource, and the decision whether
/// the sender may call a function.
///
/// The runtime rejects a request with two `Authorization` headers, or with an access token in its query, before the
/// authenticator sees it.
///
/// ```
/// use mcp_runtime::auth::{AuthenticateFuture, AuthenticationError, Authenticator, Identity};
///
/// /// Trusts the name in the client certificate, which the proxy has verified.
/// struct ClientCertificate;
///
/// impl Authenticator for ClientCertificate {
///     fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
///         Box::pin(async move {
///             let name = request.headers.get("x-client-cert-subject").ok_or_else(AuthenticationError::missing)?;
///             let name = name.to_str().map_err(|_| AuthenticationError::invalid("the subject is not ASCII"))?;
///             Ok(Identity::new(name).with_scopes(["notes:read"]))
///         })
///     }
/// }
/// ```
///
/// See [Access token usage](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage).
pub trait Authenticator: Send + Sync + 'static {
    /// Identifies the sender of a request from its head: method, URI, headers, and the values in its extensions, among
    /// them its [`PeerAddr`] if it is known.
    ///
    /// It is called once for each request, before the body is read, and never for CORS preflight requests and requests
    /// for metadata. Requests are authenticated concurrently. Dropping the future must be safe: it happens when the
    /// client disconnects.
    ///
    /// The credentials must be intended for this server. For access tokens, that is the audience: a token that was
    /// issued for another resource is [invalid](AuthenticationError::invalid).
    ///
    /// # Errors
    ///
    /// Returns why the sender could not be identified, which decides the response.
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a>;

    /// Returns the description of the resource for clients: its identifier, and the issuers of its tokens. It is called
    /// once, when the server is built.
    fn protected_resource(&self) -> ProtectedResource {
        ProtectedResource::new()
    }

    /// Returns the routes that are served next to the MCP endpoint, by an authorization server in the same process. It
    /// is called once, when the server is built.
    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        Vec::new()
    }
}

macro_rules! pointers {
    ($($pointer:ident)*) => {
        $(impl<A: Authenticator + ?Sized> Authenticator for $pointer<A> {
            fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
                (**self).authenticate(request)
            }

            fn protected_resource(&self) -> ProtectedResource {
                (**self).protected_resource()
            }

            fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
                (**self).routes()
            }
        })*
    };
}

pointers!(Arc Box);

/// The address of the sender of a request, in the extensions of requests to an [`Authenticator`] and to
/// [`AuthorizationRoutes`]: the one that [`Context::peer_addr`](crate::Context::peer_addr) returns in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The future of [`AuthorizationRoutes::respond`].
pub type RouteFuture<'a> = Pin<Box<dyn Future<Output = Response<Bytes>> + Send + 'a>>;

/// HTTP routes that belong to authorization and are served next to the MCP endpoint, such as the routes of an
/// authorization server in the same process. An authenticator adds them with
/// [`Authenticator::routes`](crate::auth::Authenticator::routes).
///
/// Requests to these routes are not authenticated. Their `Host` must be allowed like that of any other request, but
/// their `Origin` is not checked: the route decides what a web page may do with it, and therefore answers CORS
/// preflight requests, too. Bodies have at most 64 KiB. A request is handled to its end even if its client disconnects,
/// except that a response that takes longer than a minute becomes the status 503. At most 128 requests are handled at
/// once, of which each peer has its [share](crate::HttpOptions::max_peer_share); further requests are answered with
/// status 503, too.
pub trait AuthorizationRoutes: fmt::Debug + Send + Sync + 'static {
    /// Returns whether a path is one of the routes, whatever the method.
    fn serves(&self, path: &str) -> bool;

    /// Responds to a request, whose extensions contain its [`PeerAddr`] if it is known.
    fn respond(&self, request: Request<Bytes>) -> RouteFuture<'_>;
}

/// Returns the credentials of a request for an authentication scheme: what follows `Bearer` in its `Authorization`
/// header. The name of the scheme is not case-sensitive.
///
/// ```
/// use mcp_runtime::auth::credentials;
///
/// let request = http::Request::builder().header("authorization", "bearer mF_9.B5f-4.1JqM").body(()).unwrap();
/// let (head, ()) = request.into_parts();
/// assert_eq!(credentials(&head, "Bearer").unwrap(), "mF_9.B5f-4.1JqM");
/// assert!(credentials(&head, "DPoP").is_err());
/// ```
///
/// # Errors
///
/// Returns [`AuthenticationError::missing`] if the header is missing or has another scheme, and
/// [`AuthenticationError::malformed`] if the credentials are not a single token of
/// [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-11.2).
pub fn credentials<'a>(request: &'a Parts, scheme: &str) -> Result<&'a str, AuthenticationError> {
    let Some(value) = request.headers.get(AUTHORIZATION) else { return Err(AuthenticationError::missing()) };
    let malformed = || AuthenticationError::malformed("the credentials of the `Authorization` header are malformed");
    let value = value.to_str().map_err(|_| malformed())?.trim_matches(' ');
    let (given, credentials) = value.split_once(' ').unwrap_or((value, ""));
    if !given.eq_ignore_ascii_case(scheme) {
        return Err(AuthenticationError::missing());
    }
    let credentials = credentials.trim_start_matches(' ');
    if is_token68(credentials) { Ok(credentials) } else { Err(malformed()) }
}

/// Returns whether a text is a single token of [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-11.2).
pub(super) fn is_token68(text: &str) -> bool {
    let without_padding = text.trim_end_matches('=');
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !without_padding.is_empty() && without_padding.bytes().all(is_token_byte)
}

/// An [`Authenticator`] for servers behind the author's own middleware, which has identified the sender and inserted an
/// [`Identity`] or a [`Principal`] into the extensions of the request. A request without either is rejected with status
/// 401.
///
/// ```
/// use mcp_runtime::{Server, auth::{IdentityFromExtensions, ProtectedResource}};
///
/// let resource = ProtectedResource::new()
///     .resource("https://mcp.example.com/mcp")
///     .with_authorization_server("https://id.example.com");
/// let server = Server::empty("notes", "1.0.0").authenticate(IdentityFromExtensions::new(resource));
/// ```
#[derive(Debug, Clone, Default)]
pub struct IdentityFromExtensions {
    resource: ProtectedResource,
}

impl IdentityFromExtensions {
    /// Creates an authenticator for a resource, about which clients without credentials are told.
    pub fn new(resource: ProtectedResource) -> Self {
        Self { resource }
    }
}

impl Authenticator for IdentityFromExtensions {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        let identity = request.extensions.get::<Identity>().cloned();
        let identity = identity.or_else(|| request.extensions.get::<Principal>().cloned().map(Identity::new));
        Box::pin(async move { identity.ok_or_else(AuthenticationError::missing) })
    }

    fn protected_resource(&self) -> ProtectedResource {
        self.resource.clone()
    }
}

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

    setters! {
        /// Sets what is logged in addition to the message, such as the cause. It must not contain credentials.
        pub fn with_detail(self, detail: impl Into<String>) { self.0.detail = Some(detail.into()) }

        /// Adds a challenge, or parameters to the challenge of the same scheme that the runtime would send anyway. The
        /// runtime adds `resource_metadata` and `scope`.
        pub fn with_challenge(self, challenge: Challenge) { self.0.challenges.push(challenge) }

        /// Adds a header to the response.
        pub fn with_response_header(self, name: HeaderName, value: HeaderValue) {
            self.0.response_headers.append(name, value);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthenticationErrorKind::{Malformed, Missing};

    /// A response may carry two challenges or two cookies.
    #[test]
    fn a_response_header_may_have_several_values() {
        let header = |value| (HeaderName::from_static("set-cookie"), HeaderValue::from_static(value));
        let add = |error: AuthenticationError, value| {
            let (name, value) = header(value);
            error.with_response_header(name, value)
        };
        let error = ["a=1", "b=2"].into_iter().fold(AuthenticationError::missing(), add);
        let identity = ["a=1", "b=2"].into_iter().fold(Identity::new("ada"), |identity, value| {
            let (name, value) = header(value);
            identity.with_response_header(name, value)
        });
        for headers in [error.response_headers(), identity.response_headers().unwrap()] {
            assert_eq!(headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        }
    }

    /// A middleware that knows only the name may run next to a middleware that knows more.
    #[tokio::test]
    async fn an_identity_in_the_extensions_has_precedence_over_a_principal() {
        let (identity, principal) = (Identity::new("ada").with_scopes(["write"]), Principal::new("bob"));
        for (has_identity, has_principal, expected) in
            [(true, true, Ok("ada")), (true, false, Ok("ada")), (false, true, Ok("bob")), (false, false, Err(Missing))]
        {
            let (mut head, ()) = Request::new(()).into_parts();
            let _ = has_identity.then(|| head.extensions.insert(identity.clone()));
            let _ = has_principal.then(|| head.extensions.insert(principal.clone()));
            let found = IdentityFromExtensions::default().authenticate(&head).await;
            let found = found.as_ref().map(Identity::principal).map_err(AuthenticationError::kind);
            assert_eq!(found, expected, "{has_identity} {has_principal}");
        }
    }

    #[test]
    fn credentials_are_a_scheme_and_a_token() {
        for (value, expected) in [
            (None, Err(Missing)),
            (Some("Bearer abc"), Ok("abc")),
            (Some("bEARER abc"), Ok("abc")),
            (Some("  Bearer   a-b._~+/c==  "), Ok("a-b._~+/c==")),
            (Some(""), Err(Missing)),
            (Some("Basic YTpi"), Err(Missing)),
            (Some("Bearerabc"), Err(Missing)),
            (Some("Bearer"), Err(Malformed)),
            (Some("Bearer "), Err(Malformed)),
            (Some("Bearer ="), Err(Malformed)),
            (Some("Bearer a b"), Err(Malformed)),
            (Some("Bearer a,b"), Err(Malformed)),
            (Some("Bearer a=b"), Err(Malformed)),
            (Some("Bearer \"abc\""), Err(Malformed)),
            (Some("Bearer gr\u{fc}n"), Err(Malformed)),
        ] {
            let (mut head, ()) = Request::new(()).into_parts();
            if let Some(value) = value {
                head.headers.insert(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let found = credentials(&head, "Bearer");
            assert_eq!(
                found.as_deref().map_err(AuthenticationError::kind),
                expected.as_deref().map_err(|k| *k),
                "{value:?}"
            );
        }
    }
}
