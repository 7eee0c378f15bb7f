//! What the client says.

use serde_json::json;

use super::{
    super::{
        Generation,
        listening::{LISTEN, Listening},
        message::{INVALID_REQUEST, Key, Kind as Is, Message, PARSE_ERROR, elements, error, replace, result},
    },
    Call, Front,
};

impl Front {
    pub(super) fn client_line(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let batch = if line.starts_with('[') { elements(line) } else { None };
        match batch.filter(|elements| !elements.is_empty()) {
            Some(elements) => self.client_batch(line, &elements),
            None => match Message::read(line) {
                Some(message) => {
                    let key = message.id.and_then(|id| Key::read(id.get()));
                    if let Some(line) = self.of_client(line, &message, None) {
                        let keys = key.filter(|_| message.method.is_some());
                        self.pass(line, keys.into_iter().collect());
                    }
                }
                // The server says what is wrong with it.
                None => self.pass_unread(line),
            },
        }
    }

    fn client_batch(&mut self, line: &str, elements: &[&str]) {
        self.batches += 1;
        let (mut passed, mut keys, mut is_whole) = (Vec::new(), Vec::new(), true);
        for element in elements {
            let message = Message::read(element);
            let text = match &message {
                Some(message) => self.of_client(element, message, Some(self.batches)),
                None => Some((*element).to_owned()),
            };
            is_whole &= text.as_deref() == Some(*element);
            let is_request = message.as_ref().is_some_and(|message| message.method.is_some());
            if let Some(text) = text {
                keys.extend(message.and_then(|message| Key::read(message.id?.get())).filter(|_| is_request));
                passed.push(text);
            }
        }
        match () {
            () if passed.is_empty() => {}
            () if is_whole => self.pass(line.to_owned(), keys),
            () => self.pass(format!("[{}]", passed.join(",")), keys),
        }
    }

    /// Takes note of a message; gives it as the current server is to have it, if it is to have it.
    fn of_client(&mut self, text: &str, message: &Message<'_>, batch: Option<u64>) -> Option<String> {
        match message.kind() {
            Is::Request { id, method } => self.request(text, message, id, method, batch),
            Is::Notification { method: "notifications/cancelled" } => self.cancelled(text, message),
            Is::Notification { method: "notifications/progress" } => {
                let waits = message.param("progressToken").and_then(|token| self.questions.waits_for(token));
                self.for_server(waits.or(self.current)?, text.to_owned())
            }
            Is::Notification { method: "notifications/initialized" } => {
                if let Some(session) = &mut self.session {
                    session.is_initialized = true;
                }
                Some(text.to_owned())
            }
            Is::Response { id } => {
                let (server, asked) = self.questions.answer(id)?;
                let text = if asked == id { text.to_owned() } else { replace(text, id, &asked) };
                self.for_server(server, text)
            }
            Is::Notification { .. } | Is::Other => Some(text.to_owned()),
        }
    }

    fn request(
        &mut self,
        text: &str,
        message: &Message<'_>,
        id: &str,
        method: &str,
        batch: Option<u64>,
    ) -> Option<String> {
        // The server refuses an id that is none.
        let Some(key) = Key::read(id) else { return Some(text.to_owned()) };
        if self.calls.get(&key).is_some_and(|call| !call.is_cancelled) {
            self.send_client(error(id, INVALID_REQUEST, format_args!("a request with id {id} is still in flight")));
            return None;
        }
        if method == "ping" && self.current.is_none() {
            self.send_client(result(id, &json!({})));
            return None;
        }
        let listen = (method == LISTEN).then(|| Listening::read(id, message));
        let call = Call {
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

    fn cancelled(&mut self, text: &str, message: &Message<'_>) -> Option<String> {
        let key = message.param("requestId").and_then(Key::read)?;
        let call = self.calls.get_mut(&key)?;
        call.is_cancelled = true;
        let Some(server) = call.server else {
            self.calls.remove(&key);
            return None;
        };
        let passed = self.for_server(server, text.to_owned());
        self.settle();
        passed
    }

    /// Gives back what is for the current server, and sends what is for another.
    fn for_server(&mut self, server: Generation, text: String) -> Option<String> {
        match () {
            () if self.current == Some(server) => Some(text),
            () if self.servers.contains_key(&server) => {
                self.send_server(server, text);
                None
            }
            () => None,
        }
    }

    /// Sends a line to the current server, or has it wait for one if there are requests in it.
    fn pass(&mut self, line: String, keys: Vec<Key>) {
        let Some(current) = self.current else {
            if keys.is_empty() {
                return;
            }
            self.waiting.push_back((line, keys));
            return self.wake();
        };
        for key in keys {
            if let Some(call) = self.calls.get_mut(&key) {
                call.server = Some(current);
            }
        }
        self.send_server(current, line);
    }

    fn pass_unread(&mut self, line: &str) {
        match self.current {
            Some(current) => self.send_server(current, line.to_owned()),
            None => self.send_client(error("null", PARSE_ERROR, "this is no message of JSON-RPC")),
        }
    }

    /// Gives the current server what waited.
    pub(super) fn flush(&mut self) {
        for (line, keys) in std::mem::take(&mut self.waiting) {
            let waits = |key: &Key| self.calls.get(key).is_some_and(|call| call.server.is_none());
            if keys.iter().any(waits) {
                self.pass(line, keys);
            }
        }
    }
}
