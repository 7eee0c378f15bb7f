use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

#[cfg(feature = "http")]
use super::request_source::TestRequestSource;
use crate::engine::{Connection, Engine, RequestIds};

/// The way of the messages of a test client to the server and back.
pub(super) trait Transport: fmt::Debug + Send {
    /// Sends a message. Writes what is available at once to `out`, as lines.
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
        Self(Connection::new(Arc::clone(engine)))
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
        self.0 = Connection::new(self.0.shared_engine());
    }

    #[cfg(feature = "http")]
    fn set_head(&mut self, head: &Arc<TestRequestSource>) {
        self.0.set_source(Arc::clone(head) as _);
    }
}
