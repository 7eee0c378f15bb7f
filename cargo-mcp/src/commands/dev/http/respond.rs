//! Headers and responses.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
};

use super::super::message::{INTERNAL_ERROR, INVALID_REQUEST, batch_elements, error_response};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, text: String) -> Response<Body> {
    let mut response = empty(status);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = text.into();
    response
}

/// A response with an error that belongs to no request.
pub(super) fn reject(status: StatusCode, why: &str) -> Response<Body> {
    json(status, error_response("null", INVALID_REQUEST, why))
}

/// The response that makes a client start a new session.
pub(super) fn session_rejected() -> Response<Body> {
    reject(StatusCode::NOT_FOUND, "the rebuilt server rejected this session; start a new one")
}

/// A response with an error for each request in a body.
pub(super) fn fail_requests(ids: &[String], body: &str, why: &str) -> Response<Body> {
    let errors: Vec<_> = ids.iter().map(|id| error_response(id, INTERNAL_ERROR, why)).collect();
    match (&*errors, batch_elements(body)) {
        ([], _) => empty(StatusCode::ACCEPTED),
        (_, Some(_)) => json(StatusCode::OK, format!("[{}]", errors.join(","))),
        (_, None) => json(StatusCode::OK, errors.concat()),
    }
}

/// Returns whether a response is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Returns a header value, which is empty if the text contains invalid characters.
pub(super) fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
