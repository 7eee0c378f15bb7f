//! GET and DELETE, which concern a session.

use std::{sync::Arc, time::Instant};

use http::{HeaderValue, StatusCode, request::Parts};

use super::{
    endpoint::Endpoint,
    headers::{self, SESSION},
    response::{self, HttpResponse},
    routing,
    session::{ActiveSession, HttpSession},
    sse::{
        body::{SseBody, StreamConfig, parse_event_id},
        shared::{GENERAL, Resumption, SharedStreams},
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
    if let Some(streams) = endpoint.shared_streams() {
        return get_shared(endpoint, request, session, streams).await;
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
                return unknown_event();
            };
            if stream.is_over() && at == stream.last() {
                // The client has received everything. This status stops it from reconnecting.
                return response::empty(StatusCode::NO_CONTENT);
            }
            (stream, at)
        }
    };
    let config = stream_config(endpoint, request, &session);
    respond(endpoint, request, session, SseBody::new(stream, config, at, endpoint.shutdown()))
}

/// Opens or resumes a stream that other processes share.
async fn get_shared(
    endpoint: &Endpoint,
    request: &Parts,
    session: ActiveSession,
    streams: &SharedStreams,
) -> HttpResponse {
    let event = match request.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_event_id)) {
        Some(None) => return unknown_event(),
        event => event.flatten(),
    };
    let dialect = session.session.info.dialect;
    let resumed = match (event, &session.general) {
        (Some((stream, at)), _) if stream != GENERAL => streams.resume(&session_id(request), stream, at, dialect).await,
        (event, Some(general)) => general.open(event.map(|(_, at)| at)).await,
        (_, None) => return unknown_event(),
    };
    match resumed {
        Ok(Resumption::Events(events)) => {
            let at = event.map_or(0, |(_, at)| at);
            let config = stream_config(endpoint, request, &session);
            respond(endpoint, request, session, SseBody::shared(events, config, at, endpoint.shutdown()))
        }
        // This status stops the client from reconnecting.
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

fn respond(endpoint: &Endpoint, request: &Parts, session: ActiveSession, body: SseBody) -> HttpResponse {
    endpoint.set_reading_session(Some(&session.session));
    response::events(body.until(endpoint.stream_deadline(request)).active(Some(session)))
}

fn unknown_event() -> HttpResponse {
    response::invalid_request(StatusCode::BAD_REQUEST, "unknown or expired `Last-Event-ID`")
}

/// Returns the id of the session that a request names.
pub(super) fn session_id(request: &Parts) -> Arc<str> {
    request.headers.get(&SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default().into()
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
    endpoint.sessions().close(&session_id(request));
    response::empty(StatusCode::NO_CONTENT)
}
