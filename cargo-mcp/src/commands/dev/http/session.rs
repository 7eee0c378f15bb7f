//! The session of a client, and how another server continues it: by replaying the requests of the client.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use axum::http::{HeaderMap, Method, Request, Uri, request::Parts};
use bytes::Bytes;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{
        message::{Generation, Message, MessageKind, RequestId, batch_elements, notification, replace_part},
        session::{ServerRequests, SessionState},
        snapshot::Capability,
    },
    HttpProxy, SharedSession,
    backend::Backend,
    lock,
    respond::{PROTOCOL_VERSION, SESSION_ID, header_value},
};

/// A session as its client sees it.
#[derive(Debug, Default)]
pub(super) struct HttpSession {
    /// The URI of the `initialize` request.
    pub(super) uri: Uri,
    /// The headers of the `initialize` request.
    pub(super) headers: HeaderMap,
    pub(super) state: SessionState,
    /// The session's ids on the servers that know it.
    pub(super) server_ids: HashMap<Generation, String>,
    server_requests: ServerRequests,
    calls: HashMap<RequestId, ForwardedCall>,
    /// The changed capabilities of which the client has not been notified.
    pending_changes: BTreeSet<Capability>,
    /// Whether a new build was activated since the client was notified.
    is_rebuilt: bool,
}

/// A request of the client without a response.
#[derive(Debug)]
struct ForwardedCall {
    server: Generation,
    id: String,
    method: String,
    text: String,
    is_cancelled: bool,
}

/// A body from the client and where to send it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RoutedBody {
    /// The server to send it to, or `None` for the current one.
    pub(super) server: Option<Generation>,
    pub(super) body: String,
    /// The ids of the requests in it, as JSON.
    pub(super) requests: Vec<String>,
}

impl HttpSession {
    /// Creates the session that a successful `initialize` response opens. Returns `None` for an error response.
    pub(super) fn open(
        request: &Parts,
        initialize: &Bytes,
        server: Generation,
        id: &str,
        response: &str,
    ) -> Option<Self> {
        let result = Message::parse(response)?.result?.get();
        Some(Self {
            uri: request.uri.clone(),
            headers: request.headers.clone(),
            state: SessionState::open(String::from_utf8_lossy(initialize).into_owned(), result),
            server_ids: HashMap::from([(server, id.to_owned())]),
            ..Self::default()
        })
    }

    /// Returns the session's id on a server.
    pub(super) fn server_id(&self, server: Generation) -> Option<String> {
        self.server_ids.get(&server).cloned()
    }

    /// Records a body from the client and decides where to send it. Returns `None` if no server expects it.
    pub(super) fn route(&mut self, body: &str) -> Option<RoutedBody> {
        let Some(elements) = batch_elements(body) else { return self.route_message(body) };
        let (mut server, mut bodies, mut requests) = (None, Vec::new(), Vec::new());
        for routed in elements.iter().filter_map(|element| self.route_message(element)) {
            server = server.or(routed.server);
            bodies.push(routed.body);
            requests.extend(routed.requests);
        }
        let server = server.filter(|_| requests.is_empty());
        (!bodies.is_empty()).then(|| RoutedBody { server, body: format!("[{}]", bodies.join(",")), requests })
    }

    fn route_message(&mut self, body: &str) -> Option<RoutedBody> {
        let unchanged = |server| Some(RoutedBody { server, body: body.to_owned(), requests: Vec::new() });
        let Some(message) = Message::parse(body) else { return unchanged(None) };
        match message.kind() {
            MessageKind::Response { id } => {
                let (server, server_id) = self.server_requests.finish(id)?;
                let body = replace_part(body, id, &server_id);
                Some(RoutedBody { server: Some(server), body, requests: Vec::new() })
            }
            MessageKind::Notification { method: "notifications/cancelled" } => {
                let call = self.calls.get_mut(&RequestId::parse(message.param("requestId")?)?)?;
                call.is_cancelled = true;
                unchanged(Some(call.server))
            }
            MessageKind::Notification { method: "notifications/progress" } => {
                let token = message.param("progressToken");
                unchanged(token.and_then(|token| self.server_requests.progress_receiver(token)))
            }
            MessageKind::Notification { method: "notifications/initialized" } => {
                self.state.is_initialized = true;
                unchanged(None)
            }
            MessageKind::Request { id, .. } => {
                Some(RoutedBody { server: None, body: body.to_owned(), requests: vec![id.to_owned()] })
            }
            MessageKind::Notification { .. } | MessageKind::Other => unchanged(None),
        }
    }

    /// Records that a server processes the requests of a body.
    pub(super) fn start_calls(&mut self, server: Generation, body: &str) {
        for text in batch_elements(body).unwrap_or_else(|| vec![body]) {
            let Some(message) = Message::parse(text) else { continue };
            if let MessageKind::Request { id, method } = message.kind()
                && let Some(key) = RequestId::parse(id)
            {
                let (id, method, text) = (id.to_owned(), method.to_owned(), text.to_owned());
                self.calls.insert(key, ForwardedCall { server, id, method, text, is_cancelled: false });
            }
        }
    }

    /// Records a message from a server. Returns it as the client should receive it, or `None` if it should not.
    pub(super) fn handle_server_message(&mut self, server: Generation, text: &str) -> Option<String> {
        if let Some(elements) = batch_elements(text) {
            let handle = |element: &&str| self.handle_server_message(server, element);
            let forwarded: Vec<_> = elements.iter().filter_map(handle).collect();
            return (!forwarded.is_empty()).then(|| format!("[{}]", forwarded.join(",")));
        }
        let Some(message) = Message::parse(text) else { return Some(text.to_owned()) };
        match message.kind() {
            MessageKind::Request { id, .. } => {
                let client_id = self.server_requests.add(server, id, message.meta("progressToken"));
                Some(replace_part(text, id, &client_id))
            }
            MessageKind::Notification { method: "notifications/cancelled" } => {
                let id = message.param("requestId")?;
                Some(replace_part(text, id, &self.server_requests.cancel(server, id)?))
            }
            MessageKind::Response { id } => {
                let id = RequestId::parse(id)?;
                self.calls.get(&id).filter(|call| call.server == server)?;
                let call = self.calls.remove(&id)?;
                if message.result.is_some() {
                    self.state.update(&call.method, &call.text);
                }
                Some(text.to_owned())
            }
            MessageKind::Notification { .. } | MessageKind::Other => Some(text.to_owned()),
        }
    }

    /// Removes the calls of servers that are gone, either all calls or the calls with certain ids. Returns the ids of
    /// the calls that were not cancelled.
    pub(super) fn take_unanswered(
        &mut self,
        ids: Option<&[String]>,
        is_gone: impl Fn(Generation) -> bool,
    ) -> Vec<String> {
        let is_selected = |call: &ForwardedCall| is_gone(call.server) && ids.is_none_or(|ids| ids.contains(&call.id));
        let mut ids: Vec<_> = self
            .calls
            .extract_if(|_, call| is_selected(call))
            .filter(|(_, call)| !call.is_cancelled)
            .map(|(_, call)| call.id)
            .collect();
        ids.sort();
        ids
    }

    /// Returns whether a server has not answered one of these requests.
    pub(super) fn has_unanswered(&self, server: Generation, ids: &[String]) -> bool {
        self.calls.values().any(|call| call.server == server && !call.is_cancelled && ids.contains(&call.id))
    }

    /// Records that a new build was activated, and which lists changed.
    pub(super) fn record_rebuild(&mut self, changed: &BTreeSet<Capability>) {
        self.pending_changes.extend(changed);
        self.is_rebuilt = true;
    }

    /// Returns the notifications for the builds since the last call.
    pub(super) fn take_change_notifications(&mut self) -> Vec<String> {
        let changed = std::mem::take(&mut self.pending_changes);
        if std::mem::take(&mut self.is_rebuilt) { self.state.change_notifications(&changed) } else { Vec::new() }
    }

    /// Removes a server and its requests to the client.
    pub(super) fn forget(&mut self, server: Generation) {
        self.server_ids.remove(&server);
        self.server_requests.abandon(server);
    }
}

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
        Ok(id) => drop(lock(&session.state).server_ids.insert(backend.generation, id.clone())),
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
    let (headers, response) = backend.exchange(&parts, initialize).await.ok_or(JoinError::Unavailable)?;
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
        backend.exchange(&parts, line).await.ok_or(JoinError::Unavailable)?;
    }
    Ok(id)
}

/// Replaces the id of a client's request. Nothing else uses the new session yet, so a simple id is unique.
fn with_own_id(line: &str, index: usize) -> Option<String> {
    let id = Message::parse(line)?.id?;
    Some(replace_part(line, id.get(), &json!(format!("cargo-mcp-{index}")).to_string()))
}

/// Returns the head of a request with the URI and headers of the client's `initialize` request.
fn request_head(session: &HttpSession) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::POST;
    parts.uri = session.uri.clone();
    parts.headers = session.headers.clone();
    parts.headers.remove(&SESSION_ID);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> HttpSession {
        let response = r#"{"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
        HttpSession::open(&axum::http::Request::new(()).into_parts().0, &Bytes::new(), 1, "one", response)
            .expect("a session")
    }

    #[test]
    fn routes_messages_to_their_server() {
        let mut session = session();
        session.start_calls(1, r#"{"id":1,"method":"tools/call"}"#);
        assert_eq!(
            session.handle_server_message(1, r#"{"id":0,"method":"roots/list"}"#).as_deref(),
            Some(r#"{"id":0,"method":"roots/list"}"#)
        );
        let request = session.handle_server_message(2, r#"{"id":0,"method":"roots/list"}"#).expect("a request");
        assert_eq!(request, r#"{"id":"cargo-mcp-2-1","method":"roots/list"}"#);
        for (body, server, forwarded) in [
            (r#"{"id":5,"method":"ping"}"#, None, Some(r#"{"id":5,"method":"ping"}"#)),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#,
                Some(1),
                Some(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#),
            ),
            (r#"{"method":"notifications/cancelled","params":{"requestId":9}}"#, None, None),
            (r#"{"id":"cargo-mcp-2-1","result":{}}"#, Some(2), Some(r#"{"id":0,"result":{}}"#)),
            (r#"{"id":0,"result":{}}"#, Some(1), Some(r#"{"id":0,"result":{}}"#)),
            (r#"{"id":0,"result":{}}"#, None, None),
            ("not JSON", None, Some("not JSON")),
        ] {
            let routed = session.route(body);
            assert_eq!(routed.as_ref().map(|routed| &*routed.body), forwarded, "{body}");
            assert_eq!(routed.and_then(|routed| routed.server), server, "{body}");
        }
    }

    #[test]
    fn a_batch_with_requests_is_for_the_current_server() {
        let mut session = session();
        for (body, server) in [
            (r#"[{"id":7,"result":{}},{"id":5,"method":"ping"}]"#, None),
            (r#"[{"id":7,"result":{}},{"method":"notifications/roots/list_changed"}]"#, Some(1)),
        ] {
            session.handle_server_message(1, r#"{"id":7,"method":"roots/list"}"#);
            let routed = session.route(body).expect("a body");
            assert_eq!((&*routed.body, routed.server), (body, server));
        }
    }

    #[test]
    fn a_late_response_reaches_no_other_server() {
        let mut session = session();
        session.handle_server_message(1, r#"{"id":7,"method":"roots/list"}"#);
        session.forget(1);
        let request = session.handle_server_message(2, r#"{"id":7,"method":"roots/list"}"#).expect("a request");
        assert_ne!(request, r#"{"id":7,"method":"roots/list"}"#);
        assert!(session.route(r#"{"id":7,"result":{}}"#).is_none());
    }

    #[test]
    fn a_cancelled_request_needs_no_response() {
        let mut session = session();
        session.start_calls(1, r#"{"id":1,"method":"a"}"#);
        assert!(session.has_unanswered(1, &["1".to_owned()]));
        session.route(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#);
        assert!(!session.has_unanswered(1, &["1".to_owned()]));
        assert_eq!(session.take_unanswered(None, |_| true), [""; 0]);
    }

    #[test]
    fn each_request_has_one_response() {
        let mut session = session();
        session.start_calls(1, r#"[{"id":1,"method":"a"},{"id":2,"method":"b"},{"id":3,"method":"c"}]"#);
        session.start_calls(2, r#"{"id":4,"method":"d"}"#);
        let response = r#"{"id":2,"result":{}}"#;
        assert_eq!(session.handle_server_message(2, response), None, "the request was sent to another server");
        assert_eq!(session.handle_server_message(1, response).as_deref(), Some(response));
        assert_eq!(session.handle_server_message(1, response), None, "the request is answered");
        let ids = ["1".to_owned()];
        assert_eq!(session.take_unanswered(Some(&ids), |_| true), ["1"]);
        assert_eq!(session.take_unanswered(None, |server| server == 1), ["3"]);
        assert_eq!(session.take_unanswered(None, |_| true), ["4"]);
    }

    #[test]
    fn records_successful_requests_only() {
        let mut session = session();
        let subscribe = r#"{"id":1,"method":"resources/subscribe","params":{"uri":"a://b"}}"#;
        let level = r#"{"id":2,"method":"logging/setLevel","params":{"level":"error"}}"#;
        for body in [subscribe, level] {
            session.start_calls(1, body);
        }
        session.handle_server_message(1, r#"{"id":1,"result":{}}"#);
        session.handle_server_message(1, r#"{"id":2,"error":{}}"#);
        assert_eq!(
            session.state.requests(),
            [("resources/subscribe", subscribe.to_owned())],
            "the server rejected the level"
        );
        session.record_rebuild(&BTreeSet::from([Capability::Tools, Capability::Prompts]));
        let lists = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let resource = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}"#;
        assert_eq!(session.take_change_notifications(), [lists, resource]);
        assert_eq!(session.take_change_notifications(), [""; 0]);
    }
}
