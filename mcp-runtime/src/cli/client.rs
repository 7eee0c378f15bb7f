use std::{future::poll_fn, sync::Arc, time::Instant};

use serde_json::{Value, json};

use crate::{
    engine::{Connection, RequestIds},
    revision,
    server::BuiltServer,
};

/// The client of `--schema` and `--call`: a connection in memory, in the newest revision.
pub(super) struct Client(Connection);

impl Client {
    pub(super) fn new(server: &BuiltServer) -> Self {
        Self(Connection::new(Arc::clone(server.engine())))
    }

    /// Returns the `_meta` of each request.
    pub(super) fn meta() -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": revision::newest().revision().as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    }

    /// Sends a message, and returns the lines that the server writes until no request is in flight.
    pub(super) async fn exchange(&mut self, message: &str) -> String {
        let (mut response, mut output) = (Vec::new(), Vec::new());
        self.0.receive(message.as_bytes(), Instant::now(), &mut RequestIds::default(), &mut response);
        // The messages that a function sends while it runs precede its response.
        self.0.drain(&mut output);
        output.append(&mut response);
        while self.0.in_flight() > 0 {
            poll_fn(|cx| self.0.poll_output(cx)).await;
            self.0.drain(&mut output);
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Sends a request. Returns its result, or `None` if it has failed.
    pub(super) async fn request(&mut self, method: &str, mut params: Value) -> Option<Value> {
        params["_meta"] = Self::meta();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let lines = self.exchange(&request.to_string()).await;
        let mut response: Value = serde_json::from_str(lines.lines().last()?).ok()?;
        response.get_mut("result").map(Value::take)
    }
}
