//! Authenticating a request before its body is read.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
    time::{Duration, Instant},
};

use http::{HeaderMap, header::AUTHORIZATION, request::Parts};

use super::refusal;
use crate::{
    auth::{AuthenticationError, AuthenticationErrorKind as Kind, Authenticator, Identity, PeerAddr},
    counters::Counter,
    transport::http::{endpoint::Endpoint, request_body::RequestBody, response::HttpResponse},
};

/// The maximum size of the credentials of a request in bytes. Longer credentials are rejected before they are examined.
const MAX_CREDENTIALS_BYTES: usize = 16 << 10;

/// The maximum time for which an authenticator examines a request, after which the request is rejected with status 503.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request whose sender may use the server.
pub(in crate::transport::http) struct Admitted<B> {
    /// The head, whose extensions contain the identity of the sender if the server authenticates.
    pub(in crate::transport::http) parts: Parts,
    pub(in crate::transport::http) body: B,
    /// The headers that the authenticator adds to the response.
    response_headers: Option<HeaderMap>,
}

impl<B> Admitted<B> {
    /// Separates the request from the headers for its response.
    pub(in crate::transport::http) fn split(self) -> (Parts, B, ResponseHeaders) {
        (self.parts, self.body, ResponseHeaders(self.response_headers))
    }
}

/// The headers that an authenticator adds to a response.
pub(in crate::transport::http) struct ResponseHeaders(Option<HeaderMap>);

impl ResponseHeaders {
    pub(in crate::transport::http) fn add_to(self, mut response: HttpResponse) -> HttpResponse {
        if let Some(headers) = self.0 {
            response.headers_mut().extend(headers);
        }
        response
    }
}

/// Authenticates the sender of a request, if the server has an authenticator, and checks that the sender has the scopes
/// that every request requires.
///
/// # Errors
///
/// Returns the response that rejects the request.
pub(in crate::transport::http) async fn admit<B: RequestBody>(
    endpoint: &Endpoint,
    mut parts: Parts,
    body: B,
    now: Instant,
) -> Result<Admitted<B>, Box<HttpResponse>> {
    let Some(authorization) = endpoint.authorization() else {
        return Ok(Admitted { parts, body, response_headers: None });
    };
    if let Some(address) = endpoint.sender_of(&parts).address() {
        parts.extensions.insert(PeerAddr(address));
    }
    let identity = match identify(authorization.authenticator(), &parts).await {
        Ok(identity) => identity,
        Err(error) => {
            let outcome = match error.kind() {
                Kind::Unavailable { .. } => Counter::AuthenticatorUnavailable,
                Kind::Missing => Counter::CredentialsMissing,
                _ => Counter::CredentialsInvalid,
            };
            outcome.count();
            authorization.set_unavailable(outcome == Counter::AuthenticatorUnavailable);
            return Err(refusal::unauthenticated(authorization, endpoint, &error, parts, body, now).await);
        }
    };
    authorization.set_unavailable(false);
    let (identity, response_headers) = identity.take_response_headers();
    let access = &endpoint.engine().profile.access;
    let is_sufficient = access.grants(Some(&identity), &access.base);
    parts.extensions.insert(identity);
    let outcome = if is_sufficient { Counter::Authenticated } else { Counter::InsufficientScope };
    outcome.count();
    if is_sufficient {
        return Ok(Admitted { parts, body, response_headers });
    }
    let response = refusal::insufficient_base_scope(endpoint, parts, body, now).await;
    Err(Box::new(ResponseHeaders(response_headers).add_to(response)))
}

/// Identifies the sender of a request.
async fn identify(authenticator: &dyn Authenticator, request: &Parts) -> Result<Identity, AuthenticationError> {
    check_credentials(request)?;
    let call = || authenticator.authenticate(request);
    let Ok(mut running) = catch_unwind(AssertUnwindSafe(call)) else { return Err(panicked()) };
    let guarded = poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))).unwrap_or_else(|_| Poll::Ready(Err(panicked())))
    });
    let result = tokio::time::timeout(TIMEOUT, guarded).await;
    result.unwrap_or_else(|_| {
        Err(AuthenticationError::unavailable(RETRY_AFTER, "the credentials could not be verified in time"))
    })
}

/// The time after which a client may retry if the authenticator has failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);

fn panicked() -> AuthenticationError {
    tracing::error!("the authenticator panicked, so the request is rejected");
    AuthenticationError::unavailable(RETRY_AFTER, "the credentials could not be verified")
}

/// Rejects credentials that no authenticator may accept.
///
/// See [Token requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-requirements).
fn check_credentials(request: &Parts) -> Result<(), AuthenticationError> {
    let mut headers = request.headers.get_all(AUTHORIZATION).iter();
    let first = headers.next();
    if headers.next().is_some() {
        return Err(AuthenticationError::malformed("expected only one `Authorization` header"));
    }
    if first.is_some_and(|value| value.len() > MAX_CREDENTIALS_BYTES) {
        let message = format!("the credentials are longer than {MAX_CREDENTIALS_BYTES} bytes");
        return Err(AuthenticationError::malformed(message));
    }
    let query = request.uri.query().unwrap_or_default();
    let name = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    if name
        .map(|name| percent_encoding::percent_decode_str(name).decode_utf8_lossy())
        .any(|name| name == "access_token")
    {
        let message = "access tokens are not accepted in the query: send them in the `Authorization` header";
        return Err(AuthenticationError::malformed(message));
    }
    Ok(())
}
