//! Messages from the client.

use serde_json::json;

use super::{
    super::{
        ids::Generation,
        listen_request::{LISTEN, ListenRequest},
        message::{
            INVALID_REQUEST, Message, MessageKind, PARSE_ERROR, RequestId, batch_elements, error_response,
            replace_part, result_response,
        },
    },
    state::{InFlightCall, Proxy},
};

impl Proxy {
    pub(super) fn handle_client_line(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if let Some(elements) = batch_elements(line) {
            return self.handle_client_batch(line, &elements);
        }
        // The server reports what is wrong with an invalid message.
        let Some(message) = Message::parse(line) else { return self.forward_invalid(line) };
        if let Some(line) = self.handle_client_message(line, &message, None) {
            let request = message.request_id().filter(|_| message.method.is_some());
            self.forward(line, request.into_iter().collect());
        }
    }

    fn handle_client_batch(&mut self, line: &str, elements: &[&str]) {
        self.batches += 1;
        let (mut forwarded, mut requests, mut is_unchanged) = (Vec::new(), Vec::new(), true);
        for element in elements {
            let message = Message::parse(element);
            let text = match &message {
                Some(message) => self.handle_client_message(element, message, Some(self.batches)),
                None => Some((*element).to_owned()),
            };
            is_unchanged &= text.as_deref() == Some(*element);
            if let Some(text) = text {
                requests.extend(message.filter(|message| message.method.is_some()).and_then(|it| it.request_id()));
                forwarded.push(text);
            }
        }
        if is_unchanged {
            self.forward(line.to_owned(), requests);
        } else if !forwarded.is_empty() {
            self.forward(format!("[{}]", forwarded.join(",")), requests);
        }
    }

    /// Records a message. Returns it as the active server should receive it, or `None` if it should not.
    fn handle_client_message(&mut self, text: &str, message: &Message<'_>, batch: Option<u64>) -> Option<String> {
        match message.kind() {
            MessageKind::Request { id, method } => self.handle_request(text, message, id, method, batch),
            MessageKind::Notification { method: "notifications/cancelled" } => self.handle_cancellation(text, message),
            MessageKind::Notification { method: "notifications/progress" } => {
                let token = message.param("progressToken");
                let receiver = token.and_then(|token| self.server_requests.progress_receiver(token));
                self.route(receiver.or(self.active)?, text.to_owned())
            }
            MessageKind::Notification { method: "notifications/initialized" } => {
                if let Some(session) = &mut self.session {
                    session.is_initialized = true;
                }
                Some(text.to_owned())
            }
            MessageKind::Response { id } => {
                let (server, server_id) = self.server_requests.finish(id)?;
                let text = if server_id == id { text.to_owned() } else { replace_part(text, id, &server_id) };
                self.route(server, text)
            }
            MessageKind::Notification { .. } | MessageKind::Other => Some(text.to_owned()),
        }
    }

    fn handle_request(
        &mut self,
        text: &str,
        message: &Message<'_>,
        id: &str,
        method: &str,
        batch: Option<u64>,
    ) -> Option<String> {
        // The server rejects an invalid id.
        let Some(key) = RequestId::parse(id) else { return Some(text.to_owned()) };
        if self.calls.get(&key).is_some_and(|call| !call.is_cancelled) {
            let why = format_args!("a request with id {id} is still in flight");
            self.send_to_client(error_response(id, INVALID_REQUEST, why));
            return None;
        }
        if method == "ping" && self.active.is_none() {
            self.send_to_client(result_response(id, &json!({})));
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
        self.calls.insert(key, call);
        Some(text.to_owned())
    }

    fn handle_cancellation(&mut self, text: &str, message: &Message<'_>) -> Option<String> {
        let key = message.param("requestId").and_then(RequestId::parse)?;
        let call = self.calls.get_mut(&key)?;
        call.is_cancelled = true;
        let Some(server) = call.server else {
            self.calls.remove(&key);
            return None;
        };
        let forwarded = self.route(server, text.to_owned());
        self.stop_idle_servers();
        forwarded
    }

    /// Returns a message for the active server, sends one for another server, and drops one whose server is gone.
    fn route(&mut self, server: Generation, text: String) -> Option<String> {
        if self.active == Some(server) {
            return Some(text);
        }
        if self.servers.contains_key(&server) {
            self.send_to_server(server, text);
        }
        None
    }

    /// Sends a line to the active server. Without one, queues a line with requests and drops any other.
    fn forward(&mut self, line: String, requests: Vec<RequestId>) {
        if let Some(active) = self.active {
            self.dispatch(active, line, &requests);
        } else if !requests.is_empty() {
            self.queue.push_back((line, requests));
            self.start_for_queue();
        }
    }

    fn forward_invalid(&mut self, line: &str) {
        match self.active {
            Some(active) => self.send_to_server(active, line.to_owned()),
            None => self.send_to_client(error_response("null", PARSE_ERROR, "not a JSON-RPC message")),
        }
    }
}
