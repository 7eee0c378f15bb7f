//! Messages from servers.

use super::{
    super::{
        message::{
            Generation, METHOD_NOT_FOUND, Message, MessageKind, RequestId, add_list_changed, batch_elements,
            replace_part,
        },
        session::{ACKNOWLEDGED, SessionState},
        snapshot::{Capability, List},
    },
    reload::{advance_start, reject_candidate, request_page},
    state::{InFlightCall, OwnRequest, Proxy},
};

/// The maximum number of pages of a list that are requested.
const MAX_PAGES: u32 = 100;
/// The number of characters that are shown of a line that is not a message.
const SHOWN_CHARS: usize = 200;

pub(super) fn handle_server_line(proxy: &mut Proxy, server: Generation, line: &str) {
    if !proxy.servers.contains_key(&server) || line.trim().is_empty() {
        return;
    }
    let text = match (batch_elements(line), Message::parse(line)) {
        (Some(elements), _) => {
            let handle = |element: &&str| handle_server_message(proxy, server, element, &Message::parse(element)?);
            let forwarded: Vec<String> = elements.iter().filter_map(handle).collect();
            (!forwarded.is_empty()).then(|| format!("[{}]", forwarded.join(",")))
        }
        (None, Some(message)) => handle_server_message(proxy, server, line, &message),
        (None, None) => {
            let shown: String = line.trim().chars().take(SHOWN_CHARS).collect();
            return proxy.warn(format_args!("the server printed a line to stdout that is not JSON-RPC: {shown}"));
        }
    };
    if let Some(text) = text {
        proxy.send_to_client(text);
    }
    proxy.stop_idle_servers();
}

/// Records a message. Returns it as the client should receive it, or `None` if it should not.
fn handle_server_message(proxy: &mut Proxy, server: Generation, text: &str, message: &Message<'_>) -> Option<String> {
    match message.kind() {
        MessageKind::Request { id, .. } => {
            let client_id = proxy.server_requests.add(server, id, message.meta("progressToken"));
            Some(if client_id == id { text.to_owned() } else { replace_part(text, id, &client_id) })
        }
        MessageKind::Notification { method: "notifications/cancelled" } => {
            let id = message.param("requestId")?;
            let client_id = proxy.server_requests.cancel(server, id)?;
            Some(replace_part(text, id, &client_id))
        }
        MessageKind::Notification { method: ACKNOWLEDGED } => {
            // Extended by list changes, and sent to the client only once.
            let owns = |call: &&mut InFlightCall| call.server == Some(server) && call.owns(message);
            proxy.calls.values_mut().find(owns)?.listen.as_mut()?.extend_acknowledgement(text, message)
        }
        MessageKind::Notification { method } => {
            let changed = Capability::ALL.into_iter().find(|capability| capability.changed_method() == method);
            proxy.changed_since.extend(changed);
            Some(text.to_owned())
        }
        MessageKind::Response { id } => handle_response(proxy, server, text, message, &RequestId::parse(id)?),
        MessageKind::Other => (message.error.is_some() && proxy.active == Some(server)).then(|| text.to_owned()),
    }
}

fn handle_response(
    proxy: &mut Proxy,
    server: Generation,
    text: &str,
    message: &Message<'_>,
    id: &RequestId,
) -> Option<String> {
    if let Some(request) = proxy.servers.get_mut(&server)?.own_requests.remove(id) {
        handle_own_response(proxy, server, request, message);
        return None;
    }
    let call = proxy.calls.get_mut(id).filter(|call| call.server == Some(server))?;
    if call.is_listening() && message.error_code() == Some(METHOD_NOT_FOUND) {
        // The proxy keeps the subscription open. This server reports no list changes, so only new builds cause them.
        call.server = None;
        return call.listen.as_mut()?.acknowledge();
    }
    let call = proxy.calls.remove(id)?;
    if proxy.active == Some(server) && call.method != "initialize" {
        proxy.crashes = 0;
    }
    if message.result.is_none() {
        return Some(text.to_owned());
    }
    match (&*call.method, &mut proxy.session) {
        ("initialize", session) => {
            *session = message.result.map(|result| SessionState::open(call.line.clone(), result.get()));
        }
        (method, Some(session)) => session.update(method, &call.line),
        (_, None) => {}
    }
    let has_capabilities = matches!(&*call.method, "initialize" | "server/discover");
    let extended = if has_capabilities { add_list_changed(text) } else { None };
    Some(extended.unwrap_or_else(|| text.to_owned()))
}

/// Processes the response to a request of the proxy.
fn handle_own_response(proxy: &mut Proxy, server: Generation, request: OwnRequest, message: &Message<'_>) {
    match request {
        OwnRequest::SessionState(method) => {
            if let Some(why) = message.error_message() {
                proxy.warn(format_args!("the new server rejected `{method}`, which the previous one accepted: {why}"));
            }
            return;
        }
        OwnRequest::Initialize => handle_initialize_result(proxy, server, message),
        OwnRequest::List(list, page) => handle_page(proxy, server, list, page, message),
    }
    advance_start(proxy, server);
}

fn handle_page(proxy: &mut Proxy, server: Generation, list: List, page: u32, message: &Message<'_>) {
    let Some(state) = proxy.servers.get_mut(&server) else { return };
    state.pending_pages -= 1;
    let cursor = match (message.result, message.error_code()) {
        (Some(result), _) => state.snapshot.as_mut().and_then(|snapshot| snapshot.add_page(list, result.get())),
        (None, Some(METHOD_NOT_FOUND)) => None,
        (None, _) => {
            state.snapshot = None;
            None
        }
    };
    if let Some(cursor) = cursor.filter(|_| page < MAX_PAGES) {
        request_page(proxy, server, list, page + 1, Some(&cursor));
    }
}

/// Compares a new server's `initialize` result with the result that the client received.
fn handle_initialize_result(proxy: &mut Proxy, server: Generation, message: &Message<'_>) {
    let Some(session) = &proxy.session else { return };
    if let Some(why) = message.error_message() {
        let why = format!("it rejected the client's `initialize` request: {why}");
        return reject_candidate(proxy, server, &why);
    }
    let new = SessionState::open(String::new(), message.result.map_or("{}", |result| result.get()));
    if new.revision != session.revision {
        let why = format!("it offers revision {}, but the client uses {}", new.revision, session.revision);
        return reject_candidate(proxy, server, &why);
    }
    if let Some(warning) = session.capabilities_changed(&new) {
        proxy.warn(warning);
    }
    if let Some(state) = proxy.servers.get_mut(&server) {
        state.is_initialized = true;
    }
}
