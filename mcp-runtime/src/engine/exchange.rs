//! The parts of connections and of their output that only HTTP needs: connections for a single exchange, and output that
//! one of several streams carries.

use std::{
    sync::{Arc, Mutex, OnceLock},
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use super::{
    call::{in_flight::InFlight, running::Clock},
    connection::{Connection, RequestIds, without_bom},
    limits::Meter,
    outbox::Outbox,
    replicas::SessionMessage,
    request::{context::ConnectionContext, source::RequestSource},
    server::Engine,
    session::Session,
};
use crate::{
    auth::Scopes,
    error::FaultClass,
    jsonrpc::{Id, Message, Transmission, parse},
};

impl RequestIds {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Id> {
        self.first.iter().chain(&self.others)
    }
}

impl Connection {
    /// Creates a connection for a single exchange. A session that is opened on it has a separate outbox for messages
    /// that belong to no request.
    pub(crate) fn for_exchange(now: Instant, engine: Arc<Engine>) -> Self {
        Self::without_session(now, engine, true)
    }

    /// Creates a connection for a single exchange of an open session, with its own outbox.
    pub(crate) fn for_session(now: Instant, engine: Arc<Engine>, session: Arc<Session>) -> Self {
        let (in_flight, flow) = (Arc::clone(&session.in_flight), Arc::clone(&session.flow));
        let context = ConnectionContext {
            engine,
            session: OnceLock::from(session),
            in_flight,
            outbox: Arc::new(Outbox::new(Arc::clone(&flow))),
            flow,
            source: None,
            is_single_exchange: true,
            is_stdio: false,
            clock: Clock::new(now),
            outgoing: Mutex::default(),
        };
        Self { context }
    }

    /// Sets the source of the messages that follow.
    pub(crate) fn set_source(&mut self, source: Arc<dyn RequestSource>) {
        self.context.source = Some(source);
    }

    /// Returns the session that was opened on this connection.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.context.session.get()
    }

    /// Returns the calls in flight.
    pub(crate) fn in_flight_table(&self) -> Arc<InFlight> {
        Arc::clone(&self.context.in_flight)
    }

    /// Returns the outbox, which receives the responses that [`receive`](Self::receive) does not write.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.context.outbox
    }

    /// Takes the messages for other replicas that must be sent before the transmission is answered.
    pub(crate) fn take_outgoing(&self) -> Vec<SessionMessage> {
        self.context.take_outgoing()
    }

    /// Returns the scopes that a transmission requires, without handling it.
    pub(crate) fn required_scopes(&self, bytes: &[u8]) -> Scopes {
        match std::str::from_utf8(without_bom(bytes)).map(parse) {
            Ok(Transmission::One(message)) => self.scopes_of(message),
            Ok(Transmission::Batch(messages)) => {
                let messages = messages.take(self.context.engine.profile.limits.batch_messages);
                messages.fold(Scopes::default(), |all, message| all.and(self.scopes_of(Message::read(message))))
            }
            Err(_) => Scopes::default(),
        }
    }
}

impl Outbox {
    /// Returns whether the outbox is empty and, apart from pending notifications, will stay empty.
    pub(crate) fn is_finished(&self) -> bool {
        let contents = self.contents();
        // The end of a session has already cancelled its requests, even if nothing polls the code that waits for them.
        let has_questions = contents.questions > 0 && !contents.is_closed;
        contents.calls == 0 && contents.listeners == 0 && !has_questions && contents.lines.is_empty()
    }

    /// Returns whether every call and every listener has finished.
    pub(crate) fn is_complete(&self) -> bool {
        let contents = self.contents();
        contents.calls == 0 && contents.listeners == 0
    }

    /// Returns whether there is a listener, so that notifications may arrive at any time.
    pub(crate) fn is_listening(&self) -> bool {
        self.contents().listeners > 0
    }

    /// Returns whether a function has asked to close the SSE stream.
    pub(crate) fn is_close_requested(&self) -> bool {
        self.contents().close_after.is_some()
    }

    /// Takes the request of a function to close the SSE stream. Returns the time after which the client should
    /// reconnect.
    pub(crate) fn take_close_request(&self) -> Option<Duration> {
        self.contents().close_after.take()
    }

    /// Adds encoded lines.
    pub(crate) fn push(&self, lines: &[u8]) {
        let mut contents = self.contents();
        contents.lines.extend_from_slice(lines);
        contents.wake();
    }

    /// Becomes ready when there are encoded lines.
    #[cfg(feature = "cluster")]
    pub(crate) fn poll_lines(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.poll_contents(cx, true)
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when every call has finished.
    pub(crate) fn poll_output_or_end(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output_or_close_request(cx);
        if self.call_count() == 0 { Poll::Ready(()) } else { output }
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when a function asks to close the SSE
    /// stream.
    pub(crate) fn poll_output_or_close_request(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output(cx);
        if self.is_close_requested() { Poll::Ready(()) } else { output }
    }

    /// Returns the number of unread bytes.
    pub(crate) fn unread(&self) -> usize {
        self.contents().lines.len()
    }

    /// Adds the number of unread bytes to a meter, and keeps the meter up to date.
    pub(crate) fn set_meter(&self, meter: Meter) {
        self.contents().meter = Some(meter);
    }

    /// Wakes the task that waits for output.
    pub(crate) fn wake(&self) {
        self.contents().wake();
    }

    /// Removes a stream from the count.
    pub(crate) fn close_reader(&self) {
        self.contents().readers -= 1;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.contents().is_closed
    }

    /// Returns the class of the fault with which a call ended.
    pub(crate) fn fault(&self) -> Option<FaultClass> {
        self.contents().fault
    }

    /// Waits until there are pending notifications, or the output is closed.
    #[cfg(feature = "cluster")]
    pub(crate) async fn until_pending(&self) {
        self.until(|contents| contents.is_closed || !contents.pending.is_empty()).await;
    }

    /// Encodes the pending notifications at the end of a buffer. Leaves the lines.
    #[cfg(feature = "cluster")]
    pub(crate) fn drain_pending(&self, into: &mut Vec<u8>) {
        // Written without the lock, under which a subscription queues itself.
        let pending = std::mem::take(&mut self.contents().pending);
        pending.iter().for_each(|pending| pending.write(into));
    }

    /// Moves the encoded lines into a buffer. Leaves pending notifications. Returns whether there were any lines.
    #[cfg(feature = "cluster")]
    pub(crate) fn drain_lines(&self, into: &mut Vec<u8>) -> bool {
        self.take_lines(self.contents(), into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    #[test]
    fn the_ids_of_all_requests_of_a_transmission_are_known() {
        const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
        let server = Server::empty("test", "1.0.0").build().unwrap();
        let mut connection = Connection::new(Arc::clone(server.engine()));
        for (message, expected) in [
            (INITIALIZE, &["0"][..]),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &["1"]),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"\",\"method\":\"ping\"}", &[r#""a\"""#]),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#, &[]),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"b"},
                {"jsonrpc":"2.0","id":2,"method":"c"},{"jsonrpc":"2.0","id":3,"result":{}}]"#,
                &["1", "2"],
            ),
            (r#"[{"jsonrpc":"2.0","method":"b"}]"#, &[]),
        ] {
            let mut ids = RequestIds::default();
            connection.receive(message.as_bytes(), Instant::now(), &mut ids, &mut Vec::new());
            assert_eq!(ids.iter().map(Id::as_json).collect::<Vec<_>>(), expected, "{message}");
        }
    }
}
