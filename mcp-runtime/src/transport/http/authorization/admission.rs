//! Authenticating a request before its body is read, and the responses to requests without sufficient credentials.

use std::{
    net::IpAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};

use super::Authorization;
use crate::{
    auth::{
        AuthenticationError, AuthenticationErrorKind as Kind, Authenticator, Challenge, Identity, PeerAddr, Scopes,
    },
    counters::Counter,
    engine::{Connection, RequestSource},
    error::{Fault, excerpt},
    stdx::until_panic,
    transport::http::{
        endpoint::Endpoint,
        headers::{Header, is_json},
        request::HttpRequestSource,
        request_body::{self, RequestBody, linger},
        response::{self, HttpResponse, Rejection},
    },
};

/// The maximum size of the credentials of a request in bytes. Longer credentials are rejected before they are examined.
const MAX_CREDENTIALS_BYTES: usize = 16 << 10;

/// The maximum time for which an authenticator examines a request, after which the request is rejected with status 503.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a body that is read to find out which scopes a rejected request needs. A challenge to a longer
/// request names only the scopes that every request requires.
const MAX_EXAMINED_BYTES: usize = 64 << 10;

/// The target of the events of the audit log, which `mcp-runtime-auth` uses, too.
const AUDIT: &str = "mcp_runtime::audit";

/// Authenticates the sender of a request, if the server has an authenticator, and checks that the sender has the scopes
/// that every request requires. Returns the request, whose extensions then contain the identity of the sender, and the
/// headers that the authenticator adds to the response.
///
/// # Errors
///
/// Returns the response that rejects the request.
pub(in crate::transport::http) async fn admit<B: RequestBody>(
    endpoint: &Endpoint,
    mut parts: Parts,
    body: B,
    now: Instant,
) -> Result<(Parts, B, HeaderMap), Rejection> {
    let Some(authorization) = endpoint.authorization() else {
        return Ok((parts, body, HeaderMap::new()));
    };
    if let Some(address) = endpoint.sender_of(&parts).address() {
        parts.extensions.insert(PeerAddr(address));
    }
    let identity = match identify(&*authorization.authenticator, &parts).await {
        Ok(identity) => identity,
        Err(error) => {
            let outcome = match error.kind() {
                Kind::Unavailable { .. } => Counter::AuthenticatorUnavailable,
                Kind::Missing => Counter::CredentialsMissing,
                _ => Counter::CredentialsInvalid,
            };
            outcome.count();
            authorization.set_unavailable(outcome == Counter::AuthenticatorUnavailable);
            return Err(unauthenticated(endpoint, &error, parts, body, now).await);
        }
    };
    authorization.set_unavailable(false);
    let (identity, response_headers) = identity.take_response_headers();
    let response_headers = response_headers.unwrap_or_default();
    let access = &endpoint.engine().profile.access;
    let is_sufficient = access.grants(Some(&identity), &access.base);
    parts.extensions.insert(identity);
    let outcome = if is_sufficient { Counter::Authenticated } else { Counter::InsufficientScope };
    outcome.count();
    if is_sufficient {
        return Ok((parts, body, response_headers));
    }
    let source = Arc::new(HttpRequestSource::new(parts, endpoint));
    let required = needed_scopes(endpoint, &source, body, now).await;
    let message = response::error_message(&Fault::InsufficientScope { required: required.clone() });
    let mut response = forbidden(endpoint, source.request(), &required, message);
    response.headers_mut().extend(response_headers);
    Err(Box::new(response))
}

/// Identifies the sender of a request.
async fn identify(authenticator: &dyn Authenticator, request: &Parts) -> Result<Identity, AuthenticationError> {
    check_credentials(request)?;
    // `authenticate` itself may panic, too.
    let result = pin!(async { authenticator.authenticate(request).await });
    let why = match tokio::time::timeout(TIMEOUT, until_panic(result)).await {
        Ok(Ok(result)) => return result,
        Ok(Err(_)) => {
            tracing::error!("the authenticator panicked, so the request is rejected");
            "the credentials could not be verified"
        }
        Err(_) => "the credentials could not be verified in time",
    };
    Err(AuthenticationError::unavailable(RETRY_AFTER, why))
}

/// The time after which a client may retry if the authenticator has failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Rejects credentials that no authenticator may accept.
///
/// See [Token requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-requirements).
fn check_credentials(request: &Parts) -> Result<(), AuthenticationError> {
    let mut headers = request.headers.get_all(header::AUTHORIZATION).iter();
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

/// Responds to a request whose sender could not be identified.
async fn unauthenticated<B: RequestBody>(
    endpoint: &Endpoint,
    error: &AuthenticationError,
    request: Parts,
    body: B,
    now: Instant,
) -> Rejection {
    log(error, &request);
    let source = Arc::new(HttpRequestSource::new(request, endpoint));
    let (status, code) = match error.kind() {
        Kind::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, None),
        Kind::Malformed => (StatusCode::BAD_REQUEST, Some("invalid_request")),
        Kind::Invalid => (StatusCode::UNAUTHORIZED, Some("invalid_token")),
        _ => (StatusCode::UNAUTHORIZED, None),
    };
    let scopes = if status == StatusCode::UNAUTHORIZED {
        needed_scopes(endpoint, &source, body, now).await
    } else {
        discard(endpoint, source.request(), body);
        Vec::new()
    };
    let mut response = response::invalid_request(status, error.message());
    if let Kind::Unavailable { retry_after } = error.kind() {
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    } else {
        let description = excerpt(error.message());
        let parameters = code.map(|code| [("error", code), ("error_description", &*description)]);
        let parameters = parameters.as_slice().as_flattened();
        challenge(endpoint, source.request(), &mut response, parameters, error.challenges(), &scopes);
    }
    response.headers_mut().extend(error.response_headers().clone());
    Box::new(response)
}

/// Responds to a request whose sender lacks scopes for the operation. `message` is the JSON-RPC error.
pub(in crate::transport::http) fn insufficient_scope(
    endpoint: &Endpoint,
    source: &HttpRequestSource,
    message: Vec<u8>,
) -> HttpResponse {
    forbidden(endpoint, source.request(), &source.demanded_scopes(), message)
}

/// Responds with a challenge that names scopes: status 403, or 401 if the sender is unknown.
fn forbidden(endpoint: &Endpoint, request: &Parts, required: &[String], message: Vec<u8>) -> HttpResponse {
    let identity = response::identity(request);
    let (status, error) = match identity {
        Some(_) => (StatusCode::FORBIDDEN, Some(("error", "insufficient_scope"))),
        None => (StatusCode::UNAUTHORIZED, None),
    };
    let principal = identity.map(|identity| identity.principal());
    tracing::info!(
        target: AUDIT,
        event = "refusal",
        principal,
        peer = peer(request).map(tracing::field::display),
        reason = "insufficient scope",
        scopes = required.join(" "),
        path = request.uri.path(),
        "request without sufficient scopes rejected"
    );
    let mut response = response::json(status, message);
    challenge(endpoint, request, &mut response, error.as_slice(), &[], required);
    response
}

/// Returns the scopes that a request needs, including the scopes that every request requires.
async fn needed_scopes<B: RequestBody>(
    endpoint: &Endpoint,
    source: &Arc<HttpRequestSource>,
    body: B,
    now: Instant,
) -> Vec<String> {
    let request = source.request();
    let [content_type] = Header::find(&request.headers, [&header::CONTENT_TYPE]);
    let is_examined = request.method == Method::POST
        && is_json(content_type)
        && body.size_hint().upper().is_none_or(|bytes| bytes <= MAX_EXAMINED_BYTES as u64)
        && endpoint.engine().registry().requires_scopes;
    let mut scopes = Scopes::default();
    if !is_examined {
        discard(endpoint, request, body);
    } else if let Ok(body) = request_body::read(endpoint, source, body, MAX_EXAMINED_BYTES, now).await {
        let mut connection = Connection::for_exchange(now, Arc::clone(endpoint.engine()));
        connection.set_source(Arc::clone(source) as Arc<dyn RequestSource>);
        scopes = connection.required_scopes(body.bytes().trim_ascii());
    }
    endpoint.engine().profile.access.to_request(response::identity(request), scopes)
}

/// Reads the body of a rejected request for a while, since most clients read the response only afterwards.
fn discard<B: RequestBody>(endpoint: &Endpoint, request: &Parts, body: B) {
    if request.method == Method::POST {
        linger(request, Box::pin(body), endpoint.options().max_body_bytes);
    }
}

/// Adds a challenge, or its parameters to the challenge of the same scheme.
fn merge(mut challenges: Vec<Challenge>, added: &Challenge) -> Vec<Challenge> {
    match challenges.iter_mut().find(|challenge| challenge.scheme().eq_ignore_ascii_case(added.scheme())) {
        Some(challenge) => {
            for (name, value) in added.parameters() {
                *challenge = challenge.clone().with_parameter(name.to_owned(), value);
            }
        }
        None => challenges.push(added.clone()),
    }
    challenges
}

/// Adds a `WWW-Authenticate` header for each challenge: the challenges of the endpoint, merged with the `added` ones. The
/// parameters of an `error` apply only if `added` is empty.
fn challenge(
    endpoint: &Endpoint,
    request: &Parts,
    response: &mut HttpResponse,
    error: &[(&'static str, &str)],
    added: &[Challenge],
    scopes: &[String],
) {
    let authorization = endpoint.authorization();
    let challenges = authorization.map_or_else(|| vec![Challenge::new("Bearer")], Authorization::challenges);
    let metadata_url =
        authorization.and_then(|it| it.metadata_url(endpoint.scheme(), &endpoint.options().path, request));
    let error = if added.is_empty() { error } else { &[] };
    let scope = (!scopes.is_empty()).then(|| scopes.join(" "));
    let parameters = error.iter().copied().chain(scope.as_deref().map(|scope| ("scope", scope)));
    let parameters = parameters.chain(metadata_url.as_deref().map(|url| ("resource_metadata", url)));
    for mut challenge in added.iter().fold(challenges, merge) {
        for (name, value) in parameters.clone() {
            challenge = challenge.with_parameter(name, value);
        }
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from(&challenge));
    }
}

/// Logs that a request was rejected. Requests without credentials are part of the normal flow.
fn log(error: &AuthenticationError, request: &Parts) {
    let (reason, detail) = (excerpt(error.message()), error.detail().map(excerpt));
    let (method, path) = (&request.method, request.uri.path());
    match error.kind() {
        Kind::Missing => tracing::debug!(%method, path, "request without credentials rejected"),
        Kind::Unavailable { .. } => {
            tracing::warn!(%reason, detail = detail.as_deref(), "authentication is unavailable")
        }
        kind => {
            let what = if kind == Kind::Malformed { "malformed" } else { "invalid" };
            tracing::info!(
                target: AUDIT,
                %reason,
                detail = detail.as_deref(),
                %method,
                path,
                event = "refusal",
                peer = peer(request).map(tracing::field::display),
                "{what} credentials rejected"
            );
        }
    }
}

/// Returns the address of the sender of an authenticated request.
fn peer(request: &Parts) -> Option<IpAddr> {
    request.extensions.get::<PeerAddr>().map(|peer| peer.0.ip())
}
