use std::fmt;

use serde_json::{Value, json};

/// The closure that answers the requests of the server.
pub(super) struct Responder(pub(super) Box<dyn FnMut(&ServerRequest) -> Value + Send>);

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

/// A request that the server sends to its client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters.
    pub params: Value,
    /// The key of the question. Only revision 2026-07-28 sends it to clients.
    pub key: Option<String>,
}

impl ServerRequest {
    /// Returns the message that an elicitation shows to the user.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }
}

impl Responder {
    /// Answers the questions with which a round ended, or which a task asks.
    pub(super) fn input_responses(&mut self, requests: &Value) -> Value {
        let Self(answer) = self;
        let answered = requests.as_object().into_iter().flatten().map(|(key, request)| {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let request = ServerRequest { method, params: request["params"].clone(), key: Some(key.clone()) };
            (key.clone(), answer(&request))
        });
        Value::Object(answered.collect())
    }

    /// Returns the response to a request of the server.
    pub(super) fn response(&mut self, request: &Value) -> Value {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let server_request = ServerRequest { method, params: request["params"].clone(), key: None };
        let result = (self.0)(&server_request);
        json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
    }
}
