use std::{
    future::pending,
    sync::{Arc, Mutex, OnceLock},
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use super::{
    call::{in_flight::Batch, response, running::Clock},
    dispatch,
    methods::entries::{self, required_scopes},
    outbox::Outbox,
    pending_requests::decode_response,
    rates::FlowControl,
    replicas::SessionMessage,
    request::{
        context::{ConnectionContext, RequestContext, RequestDialect},
        operation::{Ending, Operation},
        params::Params,
    },
    server::Engine,
    session::Session,
};
use crate::{
    auth::Scopes,
    error::{Fault, FaultClass},
    jsonrpc::{Id, Incoming, Malformed, Message, ResponseBody, Transmission, parse},
    registry::Registry,
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
    const REQUEST: Self = Self { is_request: true, is_malformed: false, is_response: false, fault: None };
    const MALFORMED: Self = Self { is_malformed: true, ..Self::REQUEST };
    const RESPONSE: Self = Self { is_request: false, is_response: true, ..Self::REQUEST };
}

/// The ids of the requests of a transmission.
#[derive(Debug, Default)]
pub(crate) struct RequestIds {
    /// The first id, so that a transmission that is not a batch allocates nothing.
    pub(super) first: Option<Id>,
    pub(super) others: Vec<Id>,
}

impl RequestIds {
    fn push(&mut self, id: Id) {
        match self.first {
            None => self.first = Some(id),
            Some(_) => self.others.push(id),
        }
    }
}

impl Connection {
    /// Creates a connection on which a session may be opened. The session ends with the connection.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let connection = Self::without_session(Instant::now(), engine, false);
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

    pub(super) fn without_session(now: Instant, engine: Arc<Engine>, is_single_exchange: bool) -> Self {
        let flow = Arc::new(FlowControl::new(&engine.profile.limits.rates));
        let context = ConnectionContext {
            engine,
            session: OnceLock::new(),
            in_flight: Arc::default(),
            outbox: Arc::new(Outbox::new(Arc::clone(&flow))),
            flow,
            source: None,
            is_single_exchange,
            is_stdio: false,
            clock: Clock::new(now),
            outgoing: Mutex::default(),
            #[cfg(all(feature = "ask", not(feature = "sealed-state")))]
            round_states: OnceLock::new(),
        };
        Self { context }
    }

    /// Handles one transmission that arrived at `now`, and writes the responses that are available immediately as
    /// lines. The other responses become available to [`drain`](Self::drain) later. Adds the ids of its requests to
    /// `ids`.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        self.context.clock.set(now);
        if let Some(session) = self.context.session.get() {
            session.record_sign_of_life();
        }
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

    /// Returns whether a session is open.
    pub(crate) fn is_open(&self) -> bool {
        self.context.session.get().is_some()
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

    /// Moves the responses and notifications that have become available into a buffer. Returns whether there were any.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        self.context.outbox.drain(into)
    }

    /// Becomes ready when there is something to [`drain`](Self::drain).
    pub(crate) fn poll_output(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.context.outbox.poll_output(cx)
    }

    /// Records that the client has made room for output that was waiting.
    pub(crate) fn record_read(&self) {
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

    /// Returns the number of calls in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.context.outbox.call_count()
    }

    /// Ends the open `subscriptions/listen` requests with their responses.
    pub(crate) fn end_listeners(&self) {
        self.context.in_flight.end_listeners();
    }

    /// Fails every call in flight, and ends the open `subscriptions/listen` requests with their responses.
    pub(crate) fn fail_all(&self, fault: &Fault) {
        self.context.in_flight.fail_all(fault);
    }

    #[cfg(feature = "testing")]
    pub(crate) fn shared_engine(&self) -> Arc<Engine> {
        Arc::clone(&self.context.engine)
    }

    pub(crate) fn engine(&self) -> &Engine {
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

    pub(super) fn handle(
        &mut self,
        message: Result<Incoming<'_>, Malformed>,
        batch: Option<&Arc<Batch>>,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let (id, fault) = match message {
            Ok(Incoming::Request(message, id)) => {
                ids.push(id.clone());
                return self.request(&message, &id, batch, out);
            }
            Ok(Incoming::Notification(message)) => return self.notification(&message),
            Ok(Incoming::Response(id, answer)) => {
                if let Some((session, id)) = self.context.session.get().zip(id) {
                    self.response(session, &id, answer);
                }
                return ReceiveOutcome::RESPONSE;
            }
            Err(Malformed::Parse(reason)) => (None, Fault::Parse(reason)),
            Err(Malformed::Invalid(id, reason)) => (id, Fault::InvalidRequest(reason.to_owned())),
        };
        response::write_error(out, self.default_dialect(), id.as_ref(), &fault);
        ReceiveOutcome::MALFORMED
    }

    fn notification(&self, message: &Message<'_>) -> ReceiveOutcome {
        let params = Params::read(message.params.as_ref());
        let operation = Operation::start(&self.context, &message.method, &params, None);
        let _entered = operation.enter();
        let source = self.context.source.as_deref();
        let determined = RequestDialect::of_notification(self.session_dialect(), source, &params);
        let dialect = determined.as_ref().ok().map(|determined| determined.dialect);
        if let Some(dialect) = dialect {
            operation.set_dialect(dialect);
        }
        let registry = self.context.engine.registry();
        let called = if registry.method(&message.method).is_some() {
            determined.and_then(|dialect| self.notify_method(&message.method, &params, &registry, &operation, dialect))
        } else {
            dispatch::notification(&self.context, &message.method, &params);
            Ok(())
        };
        let fault = called.as_ref().err().and_then(Fault::class);
        let ending = match called {
            Ok(()) => Ending::Complete,
            Err(fault) => {
                tracing::warn!(method = &*message.method, error = fault.to_string(), "a notification was rejected");
                Ending::Fault(fault, None)
            }
        };
        operation.end(dialect.unwrap_or_else(revision::newest), &ending);
        ReceiveOutcome { fault, ..ReceiveOutcome::default() }
    }

    /// Calls the method of an extension for a notification. Its messages to the client belong to no request, and its result is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns the fault with which the call was rejected.
    fn notify_method(
        &self,
        method: &str,
        params: &Params<'_>,
        registry: &Arc<Registry>,
        operation: &Operation,
        dialect: RequestDialect,
    ) -> Result<(), Fault> {
        let ConnectionContext {
            engine,
            session,
            in_flight,
            flow,
            outbox,
            source,
            is_single_exchange,
            is_stdio,
            clock,
            ..
        } = &self.context;
        let outbox = match session.get() {
            Some(session) => Arc::clone(&session.outbox),
            None if *is_single_exchange => {
                let outbox = Outbox::new(Arc::clone(flow));
                outbox.close();
                Arc::new(outbox)
            }
            None => Arc::clone(outbox),
        };
        let connection = &ConnectionContext {
            engine: Arc::clone(engine),
            session: session.clone(),
            in_flight: Arc::clone(in_flight),
            flow: Arc::clone(flow),
            outbox,
            source: source.clone(),
            is_single_exchange: *is_single_exchange,
            is_stdio: *is_stdio,
            clock: Clock::new(clock.last()),
            outgoing: Mutex::default(),
            #[cfg(all(feature = "ask", not(feature = "sealed-state")))]
            round_states: OnceLock::new(),
        };
        let (id, batch) = (&Id::of_notification(), None);
        let request = RequestContext { connection, dialect: &dialect, params, id, batch, registry, operation };
        entries::call_method(method, &request, &mut Vec::new())
    }

    /// Passes a response to the call that waits for it, here or on another replica.
    fn response(&self, session: &Session, id: &Id, answer: ResponseBody<'_>) {
        if session.pending_requests.respond(id, answer) {
            return;
        }
        tracing::debug!("a response to a request that is unknown here, or was withdrawn");
        if let Ok(id) = id.as_json().parse() {
            self.context.tell_replicas(|| SessionMessage::Answer(id, decode_response(answer)));
        }
    }

    /// Returns the scopes that a message requires.
    pub(super) fn scopes_of(&self, message: Result<Incoming<'_>, Malformed>) -> Scopes {
        let connection = &self.context;
        let registry = connection.engine.registry();
        let (message, id) = match message {
            Ok(Incoming::Request(message, id)) => (message, id),
            Ok(Incoming::Notification(message)) if registry.method(&message.method).is_some() => {
                (message, Id::of_notification())
            }
            _ => return Scopes::default(),
        };
        let params = Params::read(message.params.as_ref());
        let dialect = RequestDialect::determine(self.session_dialect(), None, &message.method, &params);
        let dialect = dialect.unwrap_or(RequestDialect { dialect: self.default_dialect(), level: None });
        let (id, batch, operation) = (&id, None, &Operation::none());
        let request = RequestContext {
            connection,
            dialect: &dialect,
            params: &params,
            id,
            batch,
            registry: &registry,
            operation,
        };
        required_scopes(&message.method, &request)
    }

    /// Writes an error response without an id.
    pub(super) fn reject(&self, fault: &Fault, out: &mut Vec<u8>) -> ReceiveOutcome {
        response::write_error(out, self.default_dialect(), None, fault);
        out.push(b'\n');
        ReceiveOutcome::MALFORMED
    }

    fn request(
        &mut self,
        message: &Message<'_>,
        id: &Id,
        batch: Option<&Arc<Batch>>,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let connection = &self.context;
        let params = Params::read(message.params.as_ref());
        let operation = &Operation::start(connection, &message.method, &params, Some(id));
        let _entered = operation.enter();
        let reject = |out: &mut Vec<u8>, dialect: &'static Dialect, fault: Fault| {
            response::write_error(out, dialect, Some(id), &fault);
            operation.end(dialect, &Ending::Fault(fault, None));
        };
        if connection.in_flight.has(id) {
            reject(out, self.default_dialect(), response::duplicate_id(id));
            return ReceiveOutcome::REQUEST;
        }
        let session = self.session_dialect();
        let dialect = match RequestDialect::determine(session, connection.source.as_deref(), &message.method, &params) {
            Ok(dialect) => dialect,
            Err(fault) => {
                // The request names the version, or it belongs to no session.
                reject(out, revision::newest(), fault);
                return ReceiveOutcome::MALFORMED;
            }
        };
        operation.set_dialect(dialect.dialect);
        let registry = connection.engine.registry();
        let request = RequestContext {
            connection,
            dialect: &dialect,
            params: &params,
            id,
            batch,
            registry: &registry,
            operation,
        };
        let answered = params.meta.check_progress_token();
        match answered.and_then(|()| dispatch::request(&message.method, &request, out)) {
            Ok(()) => {
                operation.end(dialect.dialect, &Ending::Complete);
                ReceiveOutcome::REQUEST
            }
            Err(fault) => {
                let class = fault.class();
                reject(out, dialect.dialect, fault);
                ReceiveOutcome { fault: class, ..ReceiveOutcome::REQUEST }
            }
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
