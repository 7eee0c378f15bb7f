//! GET and DELETE, which concern a session.

use std::time::Instant;

use http::{HeaderValue, StatusCode, request::Parts};

use super::{
    endpoint::Endpoint,
    headers::{self, SESSION},
    response::{self, HttpResponse},
    routing,
    session::HttpSession,
    sse::{
        body::{SseBody, StreamConfig, parse_event_id},
        stream::AttachedStream,
    },
};

/// Opens the stream for messages that belong to no request, or resumes a stream after `Last-Event-ID`.
pub(super) async fn get(endpoint: &Endpoint, request: &Parts, now: Instant) -> HttpResponse {
    let session = match routing::session(endpoint, request, now).await {
        Ok(session) => session,
        Err(rejection) => return *rejection,
    };
    if !headers::accepts(&request.headers, "text", "event-stream") {
        return response::invalid_request(StatusCode::NOT_ACCEPTABLE, "`Accept` must include text/event-stream");
    }
    let (stream, at) = match request.headers.get("last-event-id") {
        None => {
            let stream = session.general_stream();
            // Messages that no response has carried are still pending.
            let at = stream.written();
            (stream, at)
        }
        Some(id) => {
            let Some((stream, at)) = find_event(&session, id) else {
                return response::invalid_request(StatusCode::BAD_REQUEST, "unknown or expired `Last-Event-ID`");
            };
            if stream.is_over() && at == stream.last() {
                // The client has received everything. This status stops it from reconnecting.
                return response::empty(StatusCode::NO_CONTENT);
            }
            (stream, at)
        }
    };
    endpoint.set_reading_session(Some(&session.session));
    let config = StreamConfig { primed: false, ..endpoint.session_stream_config(&session.session) };
    let body = SseBody::new(stream, config, at, endpoint.shutdown()).until(endpoint.stream_deadline(request));
    response::events(body.active(Some(session)))
}

/// Finds the stream of an event, and the event's number.
fn find_event(session: &HttpSession, id: &HeaderValue) -> Option<(AttachedStream, u64)> {
    let (stream, at) = parse_event_id(id.to_str().ok()?)?;
    let stream = session.stream(stream)?;
    (at <= stream.last()).then_some((stream, at))
}

/// Ends a session.
pub(super) async fn delete(endpoint: &Endpoint, request: &Parts, now: Instant) -> HttpResponse {
    let session = match routing::session(endpoint, request, now).await {
        Ok(session) => session,
        Err(rejection) => return *rejection,
    };
    if let Some(shared) = endpoint.shared_sessions()
        && let Err(error) = shared.delete(&session.session).await
    {
        return response::overloaded_with(response::error_message(&error.into()));
    }
    let id = request.headers.get(&SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    endpoint.sessions().close(id);
    response::empty(StatusCode::NO_CONTENT)
}
