//! Whole responses.

use std::{convert::Infallible, pin::Pin};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{body::HttpBody, stream::Events};
use crate::{engine::is_result, error::Fault, jsonrpc::raw, revision};

pub(super) type HttpResponse = Response<HttpBody>;

/// The answer to a request, which never fails to be one.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> HttpResponse {
    with_body(status, HttpBody::default())
}

/// A response of one JSON message.
pub(super) fn json(status: StatusCode, message: Vec<u8>) -> HttpResponse {
    json_with(HeaderMap::new(), status, message)
}

/// The same, with its headers in a map that has room for them, so that none must be made.
pub(super) fn json_with(headers: HeaderMap, status: StatusCode, message: Vec<u8>) -> HttpResponse {
    let mut response = with_body(status, HttpBody::whole(message));
    *response.headers_mut() = headers;
    set(&mut response, header::CONTENT_TYPE, "application/json");
    response
}

/// A response that refuses a request, with an error that belongs to no request.
pub(super) fn refuse(status: StatusCode, fault: &Fault) -> HttpResponse {
    let mut message = Vec::new();
    crate::engine::refuse(&mut message, revision::newest(), None, fault);
    json(status, message)
}

/// A response that refuses a request, in a sentence.
pub(super) fn refuse_because(status: StatusCode, why: &str) -> HttpResponse {
    refuse(status, &Fault::InvalidRequest(why.to_owned()))
}

/// A response for now: come back later.
pub(super) fn busy(why: &str) -> HttpResponse {
    let mut message = Vec::new();
    crate::engine::refuse(&mut message, revision::newest(), None, &Fault::overloaded(why));
    busy_with(message)
}

/// A response for now, whose message is there.
pub(super) fn busy_with(message: Vec<u8>) -> HttpResponse {
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, message);
    set(&mut response, header::RETRY_AFTER, "1");
    response
}

/// A stream of events.
pub(super) fn events(events: Events) -> HttpResponse {
    let mut response = with_body(StatusCode::OK, HttpBody::events(events));
    set(&mut response, header::CONTENT_TYPE, "text/event-stream");
    set(&mut response, header::CACHE_CONTROL, "no-cache, no-transform");
    // Proxies such as nginx hold events back otherwise.
    set(&mut response, header::HeaderName::from_static("x-accel-buffering"), "no");
    response
}

/// A stream of events that has none, in place of an answer that will not come.
pub(super) fn no_events() -> HttpResponse {
    let mut response = empty(StatusCode::OK);
    set(&mut response, header::CONTENT_TYPE, "text/event-stream");
    response
}

pub(super) fn set(response: &mut HttpResponse, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn with_body(status: StatusCode, body: HttpBody) -> HttpResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The status that an answer is sent with, which for stateless requests says what went wrong.
///
/// See [Protocol version header](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#protocol-version-header).
pub(super) fn status_of(answer: &[u8], is_stateless: bool, is_malformed: bool) -> StatusCode {
    if is_result(answer) {
        return StatusCode::OK;
    }
    let code = std::str::from_utf8(answer).ok().and_then(error_code);
    match code {
        Some(_) if is_malformed => StatusCode::BAD_REQUEST,
        Some(-32601) if is_stateless => StatusCode::NOT_FOUND,
        Some(-32022..=-32020) if is_stateless => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn error_code(answer: &str) -> Option<i64> {
    let (_, error) = raw::members(answer).find(|(name, _)| name == "error")?;
    let (_, code) = raw::members(error).find(|(name, _)| name == "code")?;
    code.parse().ok()
}
