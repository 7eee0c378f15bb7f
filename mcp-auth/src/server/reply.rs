//! Building responses.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::dpop::DPOP_NONCE;

/// Returns a response with JSON, which no cache stores.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = with_body(status, body.to_string());
    set(&mut response, header::CONTENT_TYPE, "application/json");
    set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Bytes> {
    with_body(status, String::new())
}

/// Returns a page that cannot be framed, loads nothing, runs no scripts, and whose only style elements have `nonce`.
///
/// The policy does not restrict `form-action`: browsers apply it to every redirect that follows a form, and a login may
/// pass through hosts that this server does not know.
pub(super) fn html(status: StatusCode, nonce: &str, body: String) -> Response<Bytes> {
    let mut response = with_body(status, body);
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'; base-uri 'none'");
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    set(&mut response, header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(&mut response, header::CACHE_CONTROL, "no-store");
    set(&mut response, header::X_FRAME_OPTIONS, "DENY");
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut response, header::REFERRER_POLICY, "same-origin");
    response
}

/// Returns a redirect after which the browser sends a GET, without telling the target where it comes from.
pub(super) fn redirect(url: &str) -> Response<Bytes> {
    let Ok(location) = HeaderValue::try_from(url) else { return empty(StatusCode::INTERNAL_SERVER_ERROR) };
    let mut response = empty(StatusCode::SEE_OTHER);
    response.headers_mut().insert(header::LOCATION, location);
    set(&mut response, header::CACHE_CONTROL, "no-store");
    set(&mut response, header::REFERRER_POLICY, "no-referrer");
    response
}

pub(super) fn method_not_allowed(allowed: &'static str) -> Response<Bytes> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    set(&mut response, header::ALLOW, allowed);
    response
}

/// Lets every web page read a response. The endpoints for clients use no cookies.
pub(super) fn for_every_origin(mut response: Response<Bytes>) -> Response<Bytes> {
    set(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(&mut response, header::ACCESS_CONTROL_EXPOSE_HEADERS, "dpop-nonce");
    response
}

/// Responds to a CORS preflight request.
pub(super) fn preflight() -> Response<Bytes> {
    let mut response = empty(StatusCode::NO_CONTENT);
    set(&mut response, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST");
    set(&mut response, header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, dpop, mcp-protocol-version");
    set(&mut response, header::ACCESS_CONTROL_MAX_AGE, "3600");
    response
}

pub(super) fn set(response: &mut Response<Bytes>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// Adds the nonce for the next proof of the client.
pub(super) fn set_nonce(response: &mut Response<Bytes>, nonce: Option<HeaderValue>) {
    response.headers_mut().extend(nonce.map(|nonce| (DPOP_NONCE, nonce)));
}

fn with_body(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
}
