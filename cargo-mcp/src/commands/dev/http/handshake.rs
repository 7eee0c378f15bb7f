//! Opens sessions on new servers by replaying the requests of their clients.

use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, request::Parts};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{
        message::{Message, RequestId, member, notification, replace_part},
        session::SessionState,
    },
    backend::Backend,
    respond::{PROTOCOL_VERSION, SESSION_ID, header_value, is_event_stream, message_of},
    session::Session,
    state::{HttpProxy, SharedSession},
    sync::lock,
};
use crate::sse::EventReader;

/// The time that a server has to open a session.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a session could not be opened on a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinError {
    /// The server rejected it. The session was removed.
    Rejected,
    /// The server exited or did not respond.
    Unavailable,
}

/// Returns the id of a session on a server. Opens the session there if the server does not know it.
///
/// # Errors
///
/// Returns an error if the server rejects the session or exits.
pub(super) async fn join(proxy: &HttpProxy, session: &SharedSession, backend: &Backend) -> Result<String, JoinError> {
    let _opening = session.opening.lock().await;
    let known = lock(&session.state).server_id(backend.generation);
    if let Some(id) = known {
        return Ok(id);
    }
    let replay = replay(proxy, session, backend);
    let joined = timeout(REPLAY_TIMEOUT, replay).await.unwrap_or(Err(JoinError::Unavailable));
    match &joined {
        Ok(id) => lock(&session.state).set_server_id(backend.generation, id.clone()),
        Err(JoinError::Rejected) => proxy.remove_session(&session.id),
        Err(JoinError::Unavailable) => {}
    }
    joined
}

/// Opens a session on a server and brings it to the state of the client's session.
async fn replay(proxy: &HttpProxy, session: &SharedSession, backend: &Backend) -> Result<String, JoinError> {
    let (mut parts, initialize, revision) = {
        let state = lock(&session.state);
        (request_head(&state), state.state.initialize.clone(), state.state.revision.clone())
    };
    let (headers, response) = exchange(backend, &parts, initialize.into()).await.ok_or(JoinError::Unavailable)?;
    let message = response.as_deref().and_then(Message::parse);
    let Some(result) = message.as_ref().and_then(|message| message.result) else {
        let why = message.and_then(|message| message.error_message()).unwrap_or_default();
        proxy.reporter.warn(format_args!("the new server rejected the `initialize` request of a session: {why}"));
        return Err(JoinError::Rejected);
    };
    let new = SessionState::open(String::new(), result.get());
    if new.revision != revision {
        let offered = new.revision;
        proxy.reporter.warn(format_args!("a session uses revision {revision}, but the new server offers {offered}"));
        return Err(JoinError::Rejected);
    }
    let warning = lock(&session.state).state.capabilities_changed(&new);
    if let Some(warning) = warning {
        proxy.reporter.warn(warning);
    }
    let id = headers.get(&SESSION_ID).and_then(|id| id.to_str().ok()).ok_or(JoinError::Rejected)?.to_owned();
    parts.headers.insert(SESSION_ID, header_value(&id));
    parts.headers.insert(PROTOCOL_VERSION, header_value(&revision));
    let lines = {
        let session = lock(&session.state);
        let initialized = session.state.is_initialized.then(|| notification("notifications/initialized", None));
        let requests = session.state.requests().into_iter().enumerate();
        let requests = requests.filter_map(|(index, (_, line))| with_own_id(&line, index));
        initialized.into_iter().chain(requests).collect::<Vec<_>>()
    };
    for line in lines {
        exchange(backend, &parts, line.into()).await.ok_or(JoinError::Unavailable)?;
    }
    Ok(id)
}

/// Replaces the id of a client's request. Nothing else uses the new session yet, so a simple id is unique.
fn with_own_id(line: &str, index: usize) -> Option<String> {
    let id = Message::parse(line)?.id?;
    Some(replace_part(line, id.get(), &json!(format!("cargo-mcp-{index}")).to_string()))
}

/// Returns the head of a request with the URI and headers of the client's `initialize` request.
fn request_head(session: &Session) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::POST;
    parts.uri = session.uri.clone();
    parts.headers = session.headers.clone();
    parts.headers.remove(&SESSION_ID);
    parts
}

/// Sends a message. Returns the headers of the HTTP response and the JSON-RPC response in it, or `None` if the
/// connection fails.
async fn exchange(backend: &Backend, parts: &Parts, body: Bytes) -> Option<(HeaderMap, Option<String>)> {
    let text = String::from_utf8_lossy(&body).into_owned();
    let id = member(&text, "id").and_then(RequestId::parse);
    let response = backend.send(parts, body).await.ok()?;
    let (head, body) = response.into_parts();
    if !is_event_stream(&head.headers) {
        let bytes = body.collect().await.ok()?.to_bytes();
        return Some((head.headers, String::from_utf8(bytes.to_vec()).ok().filter(|text| !text.is_empty())));
    }
    let is_response = |text: &str| id.is_some() && Message::parse(text).and_then(|message| message.request_id()) == id;
    let mut reader = EventReader::new(body);
    while let Some(event) = reader.next().await {
        let event = event.ok()?;
        if let Some(response) = message_of(&event).filter(|text| is_response(text)) {
            return Some((head.headers, Some(response.to_owned())));
        }
    }
    Some((head.headers, None))
}
