//! GET and DELETE, which concern a session.

use std::time::Instant;

use http::{StatusCode, request::Parts};

use super::{
    endpoint::Endpoint,
    headers,
    response::{self, HttpResponse},
    routing,
    session::HttpSession,
    sse::{
        body::{SseBody, StreamConfig, parse_event_id},
        events::Resumption,
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
    let event = match request.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_event_id)) {
        Some(None) => return unknown_event(),
        event => event.flatten(),
    };
    match session.resume(event).await {
        Ok(Resumption::Events(events)) => {
            endpoint.set_reading_session(Some(&session.session));
            let config = stream_config(endpoint, request, &session);
            let body = SseBody::new(events, config, endpoint.shutdown());
            response::events(body.until(endpoint.stream_deadline(request)).active(Some(session)))
        }
        // The client has received everything. This status stops it from reconnecting.
        Ok(Resumption::Complete) => response::empty(StatusCode::NO_CONTENT),
        Ok(Resumption::Unknown) => unknown_event(),
        Err(error) => response::overloaded_with(response::error_message(&error.into())),
    }
}

/// Returns how the response encodes its stream. If it resumes a stream, it starts with the id that the client has named:
/// the client may lose the response before the next event, and some clients know only ids that the response contains.
fn stream_config(endpoint: &Endpoint, request: &Parts, session: &HttpSession) -> StreamConfig {
    let config = endpoint.session_stream_config(&session.session);
    StreamConfig { primed: config.primed && request.headers.contains_key("last-event-id"), ..config }
}

fn unknown_event() -> HttpResponse {
    response::invalid_request(StatusCode::BAD_REQUEST, "unknown or expired `Last-Event-ID`")
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
    endpoint.sessions().close(session.session.id().unwrap_or_default());
    response::empty(StatusCode::NO_CONTENT)
}
