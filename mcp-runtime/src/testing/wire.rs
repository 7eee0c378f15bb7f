use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use serde_json::Value;

#[cfg(feature = "http")]
use super::request_source::TestRequestSource;
use crate::engine::{Connection, Engine, RequestIds};

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

/// The way of the messages of a test client to the server and back.
pub(super) trait Transport: fmt::Debug + Send {
    /// Sends a message. Writes the output that is available at once to `out`, as lines.
    fn send(&mut self, message: &[u8], out: &mut Vec<u8>);

    /// Becomes ready when there is something to [`drain`](Self::drain).
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Moves the lines that have arrived into a buffer.
    fn drain(&mut self, into: &mut Vec<u8>);

    /// Returns the number of requests without a response.
    fn in_flight(&self) -> usize;

    /// Opens a new connection, without the previous one's session and messages.
    fn reconnect(&mut self);

    /// Sets the headers and the extensions of the requests that carry messages.
    #[cfg(feature = "http")]
    fn set_head(&mut self, head: &Arc<TestRequestSource>);

    /// Returns the head of the last HTTP response to a request of the client.
    #[cfg(feature = "http")]
    fn last_response(&self) -> Option<&http::Response<()>> {
        None
    }
}

/// A connection to an engine in memory.
#[derive(Debug)]
pub(super) struct InMemory(Connection);

impl InMemory {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        Self(Connection::over_stdio(Arc::clone(engine)))
    }
}

impl Transport for InMemory {
    fn send(&mut self, message: &[u8], out: &mut Vec<u8>) {
        // The clock of the runtime, which tests can pause, decides about the rates of a session.
        let now = tokio::time::Instant::now().into_std();
        self.0.receive(message, now, &mut RequestIds::default(), out);
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_output(cx)
    }

    fn drain(&mut self, into: &mut Vec<u8>) {
        self.0.drain(into);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn reconnect(&mut self) {
        self.0 = Connection::over_stdio(Arc::clone(self.0.engine()));
    }

    #[cfg(feature = "http")]
    fn set_head(&mut self, head: &Arc<TestRequestSource>) {
        self.0.set_source(Arc::clone(head) as _);
    }
}
