//! Assigning a request to a session by its headers; GET and DELETE, which concern a session.

use std::{sync::Arc, time::Instant};

use http::{
    Method, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};

use super::{
    endpoint::Endpoint,
    headers::{Header, SESSION, VERSION, accepts, accepts_json_and_events, is_json, is_unencoded},
    peers::Peer,
    request::HttpRequestSource,
    response::{self, HttpResponse, Rejection},
    session::ActiveSession,
    sse::{body::parse_event_id, events::Resumption},
};
use crate::{
    counters::Counter,
    error::{Fault, excerpt},
    revision,
};

/// The route of a POST, as far as its headers determine it.
pub(super) enum Route {
    Session(ActiveSession),
    /// A session that this process does not know, or whose copy is outdated. [`load`] finds it if it exists.
    Unloaded,
    Stateless,
    /// The headers do not determine the route. The message may open a session, or its body may declare a stateless
    /// revision. Any other message is rejected with this response.
    Unrouted(Rejection),
}

/// Checks the headers that describe the body of a POST.
///
/// # Errors
///
/// Returns the response that rejects the request if the body is not plain JSON.
pub(super) fn check_content(content_type: Header<'_>, content_encoding: Header<'_>) -> Result<(), Rejection> {
    let reject = |why| response::invalid_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    if !is_json(content_type) {
        return Err(Box::new(reject("`Content-Type` must be application/json")));
    }
    if !is_unencoded(content_encoding) {
        let mut response = reject("compressed bodies are not supported: `Content-Encoding` must be absent or identity");
        response::set(&mut response, ACCEPT_ENCODING, "identity");
        return Err(Box::new(response));
    }
    Ok(())
}

/// Routes a POST, before its body is read.
///
/// # Errors
///
/// Returns the response that rejects the request if its headers are unacceptable, or if its session does not exist.
pub(super) fn route(endpoint: &Endpoint, request: &Parts, now: Instant) -> Result<Route, Rejection> {
    let names = [&CONTENT_TYPE, &CONTENT_ENCODING, &ACCEPT, &VERSION, &SESSION];
    let [content_type, content_encoding, accept, version, session] = Header::find(&request.headers, names);
    check_content(content_type, content_encoding)?;
    if !accepts_json_and_events(&request.headers, accept) {
        let why = "`Accept` must include both application/json and text/event-stream";
        return Err(Box::new(response::invalid_request(StatusCode::NOT_ACCEPTABLE, why)));
    }
    let version = version.plain(&VERSION);
    if let Ok(Some(version)) = version
        && revision::stateless(version).is_some()
    {
        return Ok(Route::Stateless);
    }
    // The client may know a newer stateless version, so the body decides.
    if let Err(rejection) = check_session_version(version) {
        return Ok(Route::Unrouted(rejection));
    }
    find_session(endpoint, request, session, now)
}

/// Finds the session of a request that is [unloaded](Route::Unloaded), or that has become outdated, in the backend.
///
/// # Errors
///
/// Returns the response that rejects the request if its session does not exist, or if the backend fails.
pub(super) async fn load(endpoint: &Endpoint, source: &HttpRequestSource, now: Instant) -> Result<Route, Rejection> {
    load_session(endpoint, source.request(), source.peer(), now).await.map(Route::Session)
}

/// Finds the session of a GET or DELETE.
///
/// Without a session, the server offers no stream to a GET, so its response is `405 Method Not Allowed`, which tells
/// clients that probe for a stream to do without one.
///
/// See [Listening for messages from the server](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server).
///
/// # Errors
///
/// Returns the response that rejects the request if it names no session, or if the session does not exist.
pub(super) async fn session(endpoint: &Endpoint, request: &Parts, now: Instant) -> Result<ActiveSession, Rejection> {
    let [version, session] = Header::find(&request.headers, [&VERSION, &SESSION]);
    let version = version.plain(&VERSION);
    let is_probe = request.method == Method::GET && session.is_absent();
    if is_probe || matches!(version, Ok(Some(version)) if revision::stateless(version).is_some()) {
        return Err(Box::new(response::method_not_allowed("POST")));
    }
    check_session_version(version)?;
    match find_session(endpoint, request, session, now)? {
        Route::Session(session) => Ok(session),
        Route::Unrouted(rejection) => Err(rejection),
        _ => load_session(endpoint, request, &endpoint.peer_of(request), now).await,
    }
}

/// Routes a request to the session that it names, without waiting for the backend.
fn find_session(endpoint: &Endpoint, request: &Parts, id: Header<'_>, now: Instant) -> Result<Route, Rejection> {
    if id.is_absent() {
        let missing = response::invalid_request(StatusCode::BAD_REQUEST, "`Mcp-Session-Id` is missing");
        return Ok(Route::Unrouted(Box::new(missing)));
    }
    let id = id.text().ok_or_else(|| Box::new(session_not_found()))?;
    let found = endpoint.sessions().look_up(id, response::principal(request), now);
    Ok(found.map_or(Route::Unloaded, Route::Session))
}

/// Finds the session that a request names, in the backend if this process does not know it.
async fn load_session(
    endpoint: &Endpoint,
    request: &Parts,
    peer: &Arc<Peer>,
    now: Instant,
) -> Result<ActiveSession, Rejection> {
    let id = request.headers.get(&SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    match endpoint.sessions().load(id, response::principal(request), peer, now).await {
        Ok(Some(session)) => Ok(session),
        Ok(None) => Err(Box::new(session_not_found())),
        Err(fault) => Err(Box::new(response::overloaded_with(response::error_message(&fault)))),
    }
}

/// Returns the response to a request that names a session that does not exist or belongs to another principal.
pub(super) fn session_not_found() -> HttpResponse {
    response::invalid_request(StatusCode::NOT_FOUND, "session not found or expired")
}

/// Rejects a version that is unknown or has no sessions.
///
/// See [Protocol version header](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header).
fn check_session_version(version: Result<Option<&str>, Fault>) -> Result<(), Rejection> {
    match version {
        Ok(Some(version)) if revision::handshake(version).is_none() => {
            let why = format!("unsupported protocol version {:?}", excerpt(version));
            Err(Box::new(response::invalid_request(StatusCode::BAD_REQUEST, &why)))
        }
        Ok(_) => Ok(()),
        Err(fault) => Err(Box::new(response::error(StatusCode::BAD_REQUEST, &fault))),
    }
}

/// Opens the stream for messages that belong to no request, or resumes a stream after `Last-Event-ID`.
pub(super) async fn get(endpoint: &Endpoint, request: &Parts, now: Instant) -> Result<HttpResponse, Rejection> {
    let session = session(endpoint, request, now).await?;
    if !accepts(&request.headers, "text", "event-stream") {
        let why = "`Accept` must include text/event-stream";
        return Ok(response::invalid_request(StatusCode::NOT_ACCEPTABLE, why));
    }
    let event = match request.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_event_id)) {
        Some(None) => return Ok(unknown_event()),
        event => event.flatten(),
    };
    Ok(match session.resume(event).await {
        Ok(Resumption::Events(events)) => {
            endpoint.set_reading_session(Some(&session.session));
            let config = endpoint.session_stream_config(&session.session);
            let body = endpoint.sse_body(request, events, config, Counter::SessionStreams);
            response::events(body.active(Some(session)))
        }
        // The client has received everything. This status stops it from reconnecting.
        Ok(Resumption::Complete) => response::empty(StatusCode::NO_CONTENT),
        Ok(Resumption::Unknown) => unknown_event(),
        Err(error) => response::overloaded_with(response::error_message(&error.into())),
    })
}

fn unknown_event() -> HttpResponse {
    response::invalid_request(StatusCode::BAD_REQUEST, "unknown or expired `Last-Event-ID`")
}

/// Ends a session.
pub(super) async fn delete(endpoint: &Endpoint, request: &Parts, now: Instant) -> Result<HttpResponse, Rejection> {
    let session = session(endpoint, request, now).await?;
    let deleted = endpoint.sessions().delete(&session.session).await;
    deleted.map_err(|error| Box::new(response::overloaded_with(response::error_message(&error.into()))))?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}
