use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::transport::Transport;

/// The connection of a test client, and the messages that it has not taken yet.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) transport: Box<dyn Transport>,
    /// The lines that were received but not yet taken.
    unread: Vec<u8>,
    /// The notifications, and the requests of the server.
    notifications: Vec<Value>,
    pub(super) max_wait: Duration,
}

impl Wire {
    pub(super) fn new(transport: impl Transport + 'static) -> Self {
        let (unread, notifications) = Default::default();
        Self { transport: Box::new(transport), unread, notifications, max_wait: Duration::from_secs(60) }
    }

    /// Opens a new connection.
    pub(super) fn reconnect(&mut self) {
        self.transport.reconnect();
        self.unread.clear();
        self.notifications.clear();
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_bytes(message.to_string().as_bytes());
    }

    pub(super) fn send_bytes(&mut self, message: &[u8]) {
        self.transport.send(message, &mut self.unread);
    }

    /// Drops the lines that have arrived.
    pub(super) fn clear(&mut self) {
        self.unread.clear();
    }

    /// Waits until the server writes.
    pub(super) async fn wait(&mut self) {
        let began = Instant::now();
        // Output that is available already requires no timer of the runtime.
        if poll_fn(|cx| Poll::Ready(self.transport.poll_output(cx).is_ready())).await {
            return;
        }
        while tokio::time::timeout(self.max_wait, poll_fn(|cx| self.transport.poll_output(cx))).await.is_err() {
            // A paused clock runs ahead of real time while the runtime is idle.
            assert!(
                began.elapsed() < self.max_wait,
                "the server wrote nothing for {:?}, with {} requests in flight",
                self.max_wait,
                self.transport.in_flight(),
            );
        }
    }

    /// Takes the output that has arrived, unchanged.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.transport.drain(&mut output);
        output.append(&mut self.unread);
        output
    }

    /// Takes the lines that have arrived.
    pub(super) fn lines(&mut self) -> Vec<Value> {
        self.output().split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Takes the response to a request and keeps everything else.
    pub(super) fn take_response(&mut self, id: u64) -> Option<Value> {
        let mut lines = self.lines();
        let at = lines.iter().position(|line| line["id"] == id && line.get("method").is_none());
        let response = at.map(|at| lines.remove(at));
        self.store(lines);
        response
    }

    /// Takes all notifications and requests that have arrived.
    pub(super) fn take_notifications(&mut self) -> Vec<Value> {
        let lines = self.lines();
        self.store(lines);
        std::mem::take(&mut self.notifications)
    }

    /// Takes the notifications that `read` accepts and keeps everything else.
    pub(super) fn take_matching<T>(&mut self, mut read: impl FnMut(&Value) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        let mut others = self.take_notifications();
        others.retain(|notification| match read(notification) {
            Some(found) => {
                taken.push(found);
                false
            }
            None => true,
        });
        self.notifications = others;
        taken
    }

    /// Takes the requests of the server that have arrived, and keeps everything else.
    pub(super) fn take_requests(&mut self) -> Vec<Value> {
        let (requests, notifications) = std::mem::take(&mut self.notifications)
            .into_iter()
            .partition(|message: &Value| message.get("id").is_some());
        self.notifications = notifications;
        requests
    }

    /// Stores notifications and requests; responses stay unread until they are waited for.
    fn store(&mut self, lines: Vec<Value>) {
        for line in lines {
            if line.get("method").is_some() {
                self.notifications.push(line);
            } else {
                self.unread.extend_from_slice(line.to_string().as_bytes());
                self.unread.push(b'\n');
            }
        }
    }
}
