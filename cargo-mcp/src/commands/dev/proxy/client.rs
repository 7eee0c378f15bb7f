//! Messages from the client.

use serde_json::json;

use super::{
    super::{
        message::{
            Generation, INVALID_REQUEST, Message, MessageKind, PARSE_ERROR, RequestId, batch_elements, error_response,
            replace_part, result_response,
        },
        session::{LISTEN, ListenRequest},
    },
    reload::start_for_queue,
    state::{InFlightCall, Proxy},
};

pub(super) fn handle_client_line(proxy: &mut Proxy, line: &str) {
    let line = line.trim();
    if line.is_empty() {
        return;
    }
    if let Some(elements) = batch_elements(line) {
        return handle_client_batch(proxy, line, &elements);
    }
    // The server reports the error in an invalid message.
    let Some(message) = Message::parse(line) else { return forward_invalid(proxy, line) };
    if let Some(line) = handle_client_message(proxy, line, &message, None) {
        let request = message.request_id().filter(|_| message.method.is_some());
        forward(proxy, line, request.into_iter().collect());
    }
}

fn handle_client_batch(proxy: &mut Proxy, line: &str, elements: &[&str]) {
    proxy.batches += 1;
    let (mut forwarded, mut requests, mut is_unchanged) = (Vec::new(), Vec::new(), true);
    for element in elements {
        let message = Message::parse(element);
        let text = match &message {
            Some(message) => handle_client_message(proxy, element, message, Some(proxy.batches)),
            None => Some((*element).to_owned()),
        };
        is_unchanged &= text.as_deref() == Some(*element);
        if let Some(text) = text {
            requests.extend(message.filter(|message| message.method.is_some()).and_then(|it| it.request_id()));
            forwarded.push(text);
        }
    }
    if is_unchanged {
        forward(proxy, line.to_owned(), requests);
    } else if !forwarded.is_empty() {
        forward(proxy, format!("[{}]", forwarded.join(",")), requests);
    }
}

/// Records a message. Returns it as the active server should receive it, or `None` if it should not.
fn handle_client_message(proxy: &mut Proxy, text: &str, message: &Message<'_>, batch: Option<u64>) -> Option<String> {
    match message.kind() {
        MessageKind::Request { id, method } => handle_request(proxy, text, message, id, method, batch),
        MessageKind::Notification { method: "notifications/cancelled" } => handle_cancellation(proxy, text, message),
        MessageKind::Notification { method: "notifications/progress" } => {
            let token = message.param("progressToken");
            let receiver = token.and_then(|token| proxy.server_requests.progress_receiver(token));
            route(proxy, receiver.or(proxy.active)?, text.to_owned())
        }
        MessageKind::Notification { method: "notifications/initialized" } => {
            if let Some(session) = &mut proxy.session {
                session.is_initialized = true;
            }
            Some(text.to_owned())
        }
        MessageKind::Response { id } => {
            let (server, server_id) = proxy.server_requests.finish(id)?;
            let text = if server_id == id { text.to_owned() } else { replace_part(text, id, &server_id) };
            route(proxy, server, text)
        }
        MessageKind::Notification { .. } | MessageKind::Other => Some(text.to_owned()),
    }
}

fn handle_request(
    proxy: &mut Proxy,
    text: &str,
    message: &Message<'_>,
    id: &str,
    method: &str,
    batch: Option<u64>,
) -> Option<String> {
    // The server rejects an invalid id.
    let Some(key) = RequestId::parse(id) else { return Some(text.to_owned()) };
    if proxy.calls.get(&key).is_some_and(|call| !call.is_cancelled) {
        let why = format_args!("a request with id {id} is still in flight");
        proxy.send_to_client(error_response(id, INVALID_REQUEST, why));
        return None;
    }
    if method == "ping" && proxy.active.is_none() {
        proxy.send_to_client(result_response(id, &json!({})));
        return None;
    }
    let listen = (method == LISTEN).then(|| ListenRequest::parse(id, message));
    let call = InFlightCall {
        id: id.to_owned(),
        method: method.to_owned(),
        line: text.to_owned(),
        server: None,
        is_cancelled: false,
        batch,
        listen,
    };
    proxy.calls.insert(key, call);
    Some(text.to_owned())
}

fn handle_cancellation(proxy: &mut Proxy, text: &str, message: &Message<'_>) -> Option<String> {
    let key = message.param("requestId").and_then(RequestId::parse)?;
    let call = proxy.calls.get_mut(&key)?;
    call.is_cancelled = true;
    let Some(server) = call.server else {
        proxy.calls.remove(&key);
        return None;
    };
    let forwarded = route(proxy, server, text.to_owned());
    proxy.stop_idle_servers();
    forwarded
}

/// Returns a message for the active server, sends one for another server, and drops one whose server is gone.
fn route(proxy: &mut Proxy, server: Generation, text: String) -> Option<String> {
    if proxy.active == Some(server) {
        return Some(text);
    }
    if proxy.servers.contains_key(&server) {
        proxy.send_to_server(server, text);
    }
    None
}

/// Sends a line to the active server. Without one, queues a line with requests and drops any other.
fn forward(proxy: &mut Proxy, line: String, requests: Vec<RequestId>) {
    if let Some(active) = proxy.active {
        proxy.dispatch(active, line, &requests);
    } else if !requests.is_empty() {
        proxy.queue.push_back((line, requests));
        start_for_queue(proxy);
    }
}

fn forward_invalid(proxy: &mut Proxy, line: &str) {
    match proxy.active {
        Some(active) => proxy.send_to_server(active, line.to_owned()),
        None => proxy.send_to_client(error_response("null", PARSE_ERROR, "not a JSON-RPC message")),
    }
}
