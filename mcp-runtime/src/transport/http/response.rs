//! HTTP responses and their bodies, and the sender of a request as a middleware has identified it.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use http_body::{Body, Frame, SizeHint};

use super::sse::body::SseBody;
use crate::{
    auth::{Identity, Principal},
    error::{Fault, FaultClass},
    revision,
};

pub(super) type HttpResponse = Response<HttpBody>;

/// The response to a request that is rejected.
pub(super) type Rejection = Box<HttpResponse>;

/// The future of a `tower_service::Service`.
pub(super) type ResponseFuture = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

/// Returns a response without a body.
pub(super) fn empty(status: StatusCode) -> HttpResponse {
    with_body(status, HttpBody::default())
}

/// Returns a response with one JSON message.
pub(super) fn json(status: StatusCode, message: impl Into<Bytes>) -> HttpResponse {
    json_with(HeaderMap::new(), status, message)
}

/// Returns a response with one JSON message. Reuses the allocation of `headers`, which must be empty.
pub(super) fn json_with(headers: HeaderMap, status: StatusCode, message: impl Into<Bytes>) -> HttpResponse {
    let mut response = with_body(status, HttpBody::complete(message));
    *response.headers_mut() = headers;
    set(&mut response, header::CONTENT_TYPE, "application/json");
    response
}

/// Returns an error response without a request id.
pub(super) fn error(status: StatusCode, fault: &Fault) -> HttpResponse {
    json(status, error_message(fault))
}

/// Returns a response with this status and an `invalid request` error.
pub(super) fn invalid_request(status: StatusCode, why: &str) -> HttpResponse {
    error(status, &Fault::InvalidRequest(why.to_owned()))
}

/// Returns a `405 Method Not Allowed` response.
pub(super) fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let mut response = invalid_request(StatusCode::METHOD_NOT_ALLOWED, "HTTP method not allowed");
    set(&mut response, header::ALLOW, allowed);
    response
}

/// Returns a `503 Service Unavailable` response that asks the client to retry.
pub(super) fn overloaded(why: &'static str) -> HttpResponse {
    overloaded_with(error_message(&Fault::overloaded(why)))
}

/// Returns a `503 Service Unavailable` response with this message.
pub(super) fn overloaded_with(message: impl Into<Bytes>) -> HttpResponse {
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, message);
    set(&mut response, header::RETRY_AFTER, "1");
    response
}

/// Returns the response to a liveness or readiness check, which fails if there is a reason. `authenticator` is the state
/// of the authenticator, if there is one; the check does not depend on it, since other replicas ask the same service.
pub(super) fn health(why: Option<&'static str>, authenticator: Option<&'static str>) -> HttpResponse {
    let mut body = serde_json::json!({"status": if why.is_some() { "unavailable" } else { "ok" }});
    for (name, text) in [("reason", why), ("authenticator", authenticator)] {
        if let Some(text) = text {
            body[name] = text.into();
        }
    }
    let body = body.to_string();
    if why.is_some() { overloaded_with(body) } else { json(StatusCode::OK, body) }
}

/// Encodes an error response without a request id.
pub(super) fn error_message(fault: &Fault) -> Vec<u8> {
    let mut message = Vec::new();
    crate::engine::write_error(&mut message, revision::newest(), None, fault);
    message
}

/// Returns a response that carries a stream of events.
pub(super) fn events(events: SseBody) -> HttpResponse {
    let mut response = with_body(StatusCode::OK, HttpBody(Kind::Events(Box::new(events))));
    set(&mut response, header::CONTENT_TYPE, "text/event-stream");
    set(&mut response, header::CACHE_CONTROL, "no-cache, no-transform");
    // Proxies such as nginx buffer events otherwise.
    set(&mut response, header::HeaderName::from_static("x-accel-buffering"), "no");
    response
}

/// Returns an empty event stream, for a request that was cancelled and has no response.
pub(super) fn no_events() -> HttpResponse {
    let mut response = empty(StatusCode::OK);
    set(&mut response, header::CONTENT_TYPE, "text/event-stream");
    response
}

/// Sets a header.
pub(super) fn set(response: &mut HttpResponse, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn with_body(status: StatusCode, body: HttpBody) -> HttpResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Returns the HTTP status for a response to a stateless request, which depends on the fault.
///
/// See [Protocol version header](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#protocol-version-header).
pub(super) fn stateless_status(fault: Option<FaultClass>) -> StatusCode {
    match fault {
        Some(FaultClass::UnknownMethod) => StatusCode::NOT_FOUND,
        Some(FaultClass::Mismatch) => StatusCode::BAD_REQUEST,
        Some(FaultClass::Overloaded) => StatusCode::SERVICE_UNAVAILABLE,
        Some(FaultClass::InsufficientScope) => StatusCode::FORBIDDEN,
        None => StatusCode::OK,
    }
}

/// Returns the identity of the sender.
pub(super) fn identity(request: &Parts) -> Option<&Identity> {
    request.extensions.get()
}

/// Returns the name of the sender's principal.
pub(super) fn principal(request: &Parts) -> Option<&str> {
    identity(request).map(Identity::principal).or_else(|| request.extensions.get().map(Principal::as_str))
}

/// The body of a response: a complete message, or a stream of server-sent events.
#[derive(Debug)]
pub struct HttpBody(Kind);

#[derive(Debug)]
enum Kind {
    Complete(Option<Bytes>),
    Events(Box<SseBody>),
}

impl HttpBody {
    pub(crate) fn complete(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Complete(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty())))
    }
}

/// An empty body, which the CORS layer requires for preflight responses.
impl Default for HttpBody {
    fn default() -> Self {
        Self(Kind::Complete(None))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Kind::Complete(bytes) => Poll::Ready(bytes.take()),
            Kind::Events(events) => events.poll_next(cx),
        };
        data.map(|data| data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Complete(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Complete(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}
