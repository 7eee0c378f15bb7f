use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::Instant,
};

use super::{
    call::in_flight::InFlight,
    limits::FlowControl,
    outbox::Outbox,
    replicas::SessionMessage,
    request::{context::ConnectionContext, source::RequestSource},
    server::Engine,
    session::Session,
};
use crate::{
    auth::Scopes,
    error::{Fault, FaultClass},
    jsonrpc::{Id, Incoming, Message, Transmission, parse},
    revision::{self, Dialect},
};

/// The server's side of a connection to one peer: its session, its calls in flight and its output.
///
/// A connection consumes messages and produces messages. It must be driven inside a tokio runtime, since calls that
/// have to wait are spawned as tasks.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) context: ConnectionContext,
}

/// The outcome of receiving a transmission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// Whether the transmission needs a response, because it contained a request or was malformed.
    pub(crate) is_request: bool,
    /// Whether the transmission was malformed, or the dialect of a request could not be determined.
    pub(crate) is_malformed: bool,
    /// Whether the transmission was a response.
    pub(crate) is_response: bool,
    /// The class of the fault with which the request was rejected before a function ran.
    pub(crate) fault: Option<FaultClass>,
}

impl ReceiveOutcome {
    pub(super) const REQUEST: Self = Self { is_request: true, is_malformed: false, is_response: false, fault: None };
    pub(super) const MALFORMED: Self = Self { is_malformed: true, ..Self::REQUEST };
    pub(super) const RESPONSE: Self = Self { is_request: false, is_response: true, ..Self::REQUEST };
}

/// The ids of the requests of a transmission.
#[derive(Debug, Default)]
pub(crate) struct RequestIds {
    /// The first id, so that a transmission that is not a batch allocates nothing.
    first: Option<Id>,
    others: Vec<Id>,
}

impl RequestIds {
    pub(super) fn push(&mut self, id: Id) {
        match self.first {
            None => self.first = Some(id),
            Some(_) => self.others.push(id),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Id> {
        self.first.iter().chain(&self.others)
    }
}

impl Connection {
    /// Creates a connection on which a session may be opened. The session ends with the connection.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let mut connection = Self::for_exchange(Instant::now(), engine);
        connection.context.is_single_exchange = false;
        connection.context.outbox.open_reader();
        connection
    }

    /// Creates a connection over the stdin and stdout of the process.
    pub(crate) fn over_stdio(engine: Arc<Engine>) -> Self {
        let mut connection = Self::new(engine);
        connection.context.is_stdio = true;
        connection
    }

    /// Cancels every call in flight and every open `subscriptions/listen` request, and ends the session that was opened
    /// on this connection.
    pub(crate) fn end(&self) {
        self.context.in_flight.cancel_all();
        if let Some(session) = self.context.session.get().filter(|_| !self.context.is_single_exchange) {
            session.end();
        }
    }

    /// Handles one transmission that arrived at `now`, and writes the responses that are available immediately as
    /// lines. The other responses are added to the [outbox](Self::outbox) later. Adds the ids of its requests to `ids`.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        self.context.clock.set(now);
        self.record_sign_of_life();
        let text = match std::str::from_utf8(without_bom(bytes)) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1);
                return self.reject(&Fault::Parse(message), out);
            }
        };
        match parse(text) {
            Transmission::One(message) => {
                let before = out.len();
                let outcome = self.handle(message, None, ids, out);
                if out.len() > before {
                    out.push(b'\n');
                }
                outcome
            }
            Transmission::Batch(messages) => self.receive_batch(messages, ids, out),
        }
    }

    /// Returns whether a message is an `initialize` or `server/discover` request, which precede all other messages and
    /// call no function.
    pub(crate) fn is_handshake_request(&self, bytes: &[u8]) -> bool {
        match std::str::from_utf8(without_bom(bytes)).map(parse) {
            Ok(Transmission::One(Ok(Incoming::Request(message, _)))) => {
                matches!(&*message.method, "initialize" | "server/discover")
            }
            _ => false,
        }
    }

    /// Returns the time at which the connection last read the clock: when a transmission arrived, or when a call
    /// returned or started to wait.
    pub(crate) fn time(&self) -> Instant {
        self.context.clock.last()
    }

    /// Rejects a message that exceeds the maximum size. The message need not have been read completely.
    pub(crate) fn reject_oversized(&self, out: &mut Vec<u8>) {
        let message = format!(
            "the message is too large: the limit is {} bytes",
            self.context.engine.profile.limits.message_bytes
        );
        self.reject(&Fault::InvalidRequest(message), out);
    }

    /// Fails the questions to the client, which can send no more answers.
    pub(crate) fn end_questions(&self) {
        if let Some(session) = self.context.session.get() {
            session.pending_requests.close();
        }
    }

    /// Records that the client has sent something, or has made room for output that was waiting.
    pub(crate) fn record_sign_of_life(&self) {
        if let Some(session) = self.context.session.get() {
            session.record_sign_of_life();
        }
    }

    /// Waits until the session that was opened on this connection has ended because its client no longer responds.
    pub(crate) fn until_unresponsive(&self) -> impl Future<Output = ()> + use<> {
        let outbox = self.context.engine.profile.limits.ping_interval.map(|_| Arc::clone(&self.context.outbox));
        async move {
            match outbox {
                Some(outbox) => outbox.until_closed().await,
                None => pending().await,
            }
        }
    }

    /// Returns the session that was opened on this connection.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.context.session.get()
    }

    /// Returns the calls in flight.
    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.context.in_flight
    }

    /// Returns the outbox, which receives the responses that [`receive`](Self::receive) does not write.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.context.outbox
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.context.engine
    }

    /// Returns the dialect of the session.
    pub(super) fn session_dialect(&self) -> Option<&'static Dialect> {
        self.context.session.get().map(|session| session.info.dialect)
    }

    /// Returns the dialect of messages that do not name one.
    pub(super) fn default_dialect(&self) -> &'static Dialect {
        self.session_dialect().unwrap_or_else(revision::newest)
    }

    /// Creates a connection for a single exchange. A session that is opened on it has a separate outbox for messages
    /// that belong to no request.
    pub(crate) fn for_exchange(now: Instant, engine: Arc<Engine>) -> Self {
        let outbox = Arc::new(Outbox::new(Arc::new(FlowControl::new(&engine.profile.limits.rates))));
        let context = ConnectionContext::new(now, engine, Arc::default(), outbox);
        Self { context: ConnectionContext { is_single_exchange: true, ..context } }
    }

    /// Creates a connection for a single exchange of an open session, with its own outbox.
    pub(crate) fn for_session(now: Instant, engine: Arc<Engine>, session: Arc<Session>) -> Self {
        let outbox = Arc::new(Outbox::new(Arc::clone(&session.outbox.flow)));
        let context = ConnectionContext::new(now, engine, Arc::clone(&session.in_flight), outbox);
        let session = OnceLock::from(session);
        Self { context: ConnectionContext { session, is_single_exchange: true, ..context } }
    }

    /// Sets the source of the messages that follow.
    pub(crate) fn set_source(&mut self, source: Arc<dyn RequestSource>) {
        self.context.source = Some(source);
    }

    /// Takes the messages for other replicas that must be sent before the transmission is answered.
    pub(crate) fn take_outgoing(&self) -> Vec<SessionMessage> {
        match self.context.session.get() {
            Some(session) if session.is_shared() => std::mem::take(&mut *self.context.outgoing.lock()),
            _ => Vec::new(),
        }
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

/// Removes the byte order mark that some programs write at the start of a text.
///
/// See [RFC 8259, 8.1](https://www.rfc-editor.org/rfc/rfc8259#section-8.1).
pub(super) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.context.is_single_exchange {
            self.end();
        }
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;
    use crate::{Context, server::Server};

    struct Closed(Arc<Notify>);

    /// Close the stream.
    #[crate::tool]
    fn closes_stream(ctx: &Context, closed: &Closed) {
        ctx.close_sse_stream(Duration::ZERO);
        closed.0.notify_one();
    }

    /// Close the stream after the end of the call.
    #[crate::tool]
    fn closes_stream_too_late(ctx: &Context, closed: &Closed) {
        let (ctx, closed) = (ctx.clone(), Arc::clone(&closed.0));
        tokio::spawn(async move {
            ctx.ended().await;
            ctx.close_sse_stream(Duration::ZERO);
            closed.notify_one();
        });
    }

    #[tokio::test]
    async fn a_call_that_has_ended_does_not_close_the_stream() {
        const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
        for (tool, is_requested) in [("closes_stream", true), ("closes_stream_too_late", false)] {
            let closed = Arc::<Notify>::default();
            let server = Server::empty("test", "1.0.0").with::<closes_stream>().with::<closes_stream_too_late>();
            let server = server.with_state(Closed(Arc::clone(&closed))).build().unwrap();
            let mut connection = Connection::new(Arc::clone(server.engine()));
            let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
            for message in [INITIALIZE, call.as_str()] {
                connection.receive(message.as_bytes(), Instant::now(), &mut RequestIds::default(), &mut Vec::new());
            }
            closed.notified().await;
            assert_eq!(connection.outbox().is_close_requested(), is_requested, "{tool}");
        }
    }

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
