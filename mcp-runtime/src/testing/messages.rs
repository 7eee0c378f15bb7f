use serde_json::{Value, json};

use super::client::TestClient;

/// Messages of any kind, and what has arrived.
impl TestClient {
    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.wire.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Takes the notifications that have arrived, and the requests of the server unless a closure
    /// [answers](Self::answering) them.
    pub fn notifications(&mut self) -> Vec<Value> {
        self.wire.take_notifications()
    }

    /// Sends bytes unchanged as one message and returns the lines that the server has written so far.
    pub fn send_raw(&mut self, message: &[u8]) -> Vec<Value> {
        self.wire.send_bytes(message);
        self.wire.lines()
    }

    /// Waits until the server writes, then returns the lines.
    pub async fn next_lines(&mut self) -> Vec<Value> {
        self.wire.wait().await;
        self.wire.lines()
    }

    /// Waits until no request is in flight, then returns all lines that the server wrote.
    pub async fn settle(&mut self) -> Vec<Value> {
        let mut lines = self.wire.lines();
        while self.in_flight() > 0 {
            self.wire.wait().await;
            lines.append(&mut self.wire.lines());
        }
        lines
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.wire.transport.in_flight()
    }

    /// Sends a message and returns the lines that the server wrote, unchanged, once no request is in flight.
    pub(crate) async fn exchange(&mut self, message: &str) -> String {
        self.wire.send_bytes(message.as_bytes());
        let mut output = self.wire.output();
        while self.in_flight() > 0 {
            self.wire.wait().await;
            output.append(&mut self.wire.output());
        }
        String::from_utf8_lossy(&output).into_owned()
    }
}
