use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use super::{
    Engine, RequestSource, Session,
    batch::Batch,
    clock::Clock,
    dispatch::Speaker,
    in_flight::{InFlight, Sink},
    outbox::{Outbox, SessionLevel},
    params,
    request_source::Mirrored,
    results,
};
use crate::{
    error::Fault,
    jsonrpc::{Id, Incoming, Malformed, Message, Transmission, parse, raw},
    revision::{self, Dialect, Feature},
};

/// One peer's side of the server: what was settled with it, and where its answers go.
///
/// A connection takes messages and gives messages. It must be driven inside a tokio runtime, since a call that has to
/// wait becomes a task.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) engine: Arc<Engine>,
    pub(super) session: Option<Arc<Session>>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) level: Arc<SessionLevel>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) source: Option<Arc<dyn RequestSource>>,
    /// Whether a session that is opened here outlives the connection.
    pub(super) is_brief: bool,
    pub(super) clock: Clock,
}

/// What became of a transmission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// It held a request, so that there is an answer or will be one.
    pub(crate) is_request: bool,
    /// It could not be understood, or lacked what every request must have.
    pub(crate) is_malformed: bool,
    /// It was a response, to a request that was never made.
    pub(crate) is_response: bool,
    /// There are too many calls in flight for it.
    pub(crate) is_too_much: bool,
}

impl Connection {
    /// A connection of its own, on which a session may be opened.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self::made_at(Instant::now(), engine)
    }

    fn made_at(now: Instant, engine: Arc<Engine>) -> Self {
        let level = Arc::new(SessionLevel::default());
        let outbox = Arc::new(Outbox::new(Arc::clone(&level)));
        let clock = Clock::new(now);
        Self { engine, session: None, in_flight: Arc::default(), level, outbox, source: None, is_brief: false, clock }
    }

    /// A connection for one exchange: what a session that is opened on it has to say beside answers, goes elsewhere.
    #[cfg(feature = "http")]
    pub(crate) fn of_exchange(now: Instant, engine: Arc<Engine>) -> Self {
        Self { is_brief: true, ..Self::made_at(now, engine) }
    }

    /// One more way into a session that is open, with answers of its own.
    #[cfg(feature = "http")]
    pub(crate) fn of_session(now: Instant, engine: Arc<Engine>, session: Arc<Session>) -> Self {
        let (in_flight, level) = (Arc::clone(&session.in_flight), Arc::clone(&session.level));
        let outbox = Arc::new(Outbox::new(Arc::clone(&level)));
        let clock = Clock::new(now);
        Self { engine, session: Some(session), in_flight, level, outbox, source: None, is_brief: true, clock }
    }

    /// Says what the transport knows of the messages that follow.
    #[cfg(feature = "http")]
    pub(crate) fn set_source(&mut self, source: Arc<dyn RequestSource>) {
        self.source = Some(source);
    }

    /// The session that was opened here.
    #[cfg(feature = "http")]
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// The calls in flight.
    #[cfg(feature = "http")]
    pub(crate) fn in_flight_table(&self) -> Arc<InFlight> {
        Arc::clone(&self.in_flight)
    }

    /// Where the answers go that are not there at once.
    #[cfg(feature = "http")]
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Takes one transmission, which came at `now`, and writes the answers that are there at once as lines. The others come out of
    /// [`drain`](Self::drain) later.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<u8>) -> Receipt {
        self.clock.set(now);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let why = format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1);
                return self.refuse_line(&Fault::Parse(why), out);
            }
        };
        match parse(text) {
            Transmission::One(message) => {
                let before = out.len();
                let receipt = self.handle(message, &Sink::Line, out);
                if out.len() > before {
                    out.push(b'\n');
                }
                receipt
            }
            Transmission::Batch(messages) => self.receive_batch(messages, out),
        }
    }

    /// Says whether a message is one that comes before all others and calls no function.
    pub(crate) fn is_greeting(&self, bytes: &[u8]) -> bool {
        match std::str::from_utf8(bytes).map(parse) {
            Ok(Transmission::One(Ok(Incoming::Request(message, _)))) => {
                matches!(&*message.method, "initialize" | "server/discover")
            }
            _ => false,
        }
    }

    /// Says whether `initialize` was answered.
    pub(crate) fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// The time, as of when the last function ended that was called at once, or else as of the last transmission.
    pub(crate) fn time(&self) -> Instant {
        self.clock.last()
    }

    /// Answers a message that was longer than it may be, and whose end nobody has read.
    pub(crate) fn refuse_overlong(&self, out: &mut Vec<u8>) {
        let why = format!("a message may have at most {} bytes", self.engine.limits.message);
        self.refuse_line(&Fault::InvalidRequest(why), out);
    }

    /// Moves the responses and notifications that became ready into a buffer; true if there were any.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        self.outbox.drain(into)
    }

    /// Waits until there is something to [`drain`](Self::drain).
    pub(crate) fn poll_output(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.outbox.poll_output(cx)
    }

    /// The number of calls that are not yet answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.outbox.awaited()
    }

    /// Ends the requests that listen with their answers.
    pub(crate) fn end_listens(&self) {
        self.in_flight.end_listens();
    }

    /// Drops every call in flight.
    pub(crate) fn cancel_all(&self) {
        self.in_flight.cancel_all();
    }

    pub(crate) fn shared_engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The dialect for a message that does not say its own.
    pub(super) fn dialect(&self) -> &'static Dialect {
        self.session.as_ref().map_or_else(revision::newest, |session| session.dialect)
    }

    /// Handles one message.
    fn handle(&mut self, message: Result<Incoming<'_>, Malformed<'_>>, sink: &Sink, out: &mut Vec<u8>) -> Receipt {
        let (id, fault) = match message {
            Ok(Incoming::Request(message, id)) => return self.request(&message, id, sink, out),
            Ok(Incoming::Notification(message)) => {
                self.notification(&message);
                return Receipt::default();
            }
            Ok(Incoming::Response(id, answer)) => {
                let questions = self.session.as_ref().map(|session| &session.questions);
                let known = questions.zip(id).is_some_and(|(questions, id)| questions.answer(&id, answer));
                if !known {
                    tracing::debug!("the client answered what nobody asked, or no longer");
                }
                return Receipt { is_response: true, ..Receipt::default() };
            }
            Err(Malformed::Parse(why)) => (None, Fault::Parse(why)),
            Err(Malformed::Invalid(id, why)) => (id, Fault::InvalidRequest(why.to_owned())),
        };
        results::refuse(out, self.dialect(), id.as_ref(), &fault);
        Receipt { is_request: true, is_malformed: true, ..Receipt::default() }
    }

    fn receive_batch(&mut self, messages: raw::Elements<'_>, out: &mut Vec<u8>) -> Receipt {
        if !self.dialect().has(Feature::Batching) {
            let why = format!("protocol version {} has no batches", self.dialect().name());
            return self.refuse_line(&Fault::InvalidRequest(why), out);
        }
        let most = self.engine.limits.batch;
        match messages.clone().take(most + 1).count() {
            0 => return self.refuse_line(&Fault::InvalidRequest("a batch must not be empty".to_owned()), out),
            count if count > most => {
                let why = format!("a batch may have at most {most} messages");
                return self.refuse_line(&Fault::InvalidRequest(why), out);
            }
            _ => {}
        }
        let batch = Arc::new(Batch::new());
        let sink = Sink::Batch(Arc::clone(&batch));
        let mut response = Vec::new();
        let mut receipt = Receipt::default();
        for message in messages {
            response.clear();
            receipt.is_request |= self.handle(Message::read(message), &sink, &mut response).is_request;
            if !response.is_empty() {
                batch.add(&response);
            }
        }
        batch.skip(out);
        receipt
    }

    fn refuse_line(&self, fault: &Fault, out: &mut Vec<u8>) -> Receipt {
        results::refuse(out, self.dialect(), None, fault);
        out.push(b'\n');
        Receipt { is_request: true, is_malformed: true, ..Receipt::default() }
    }

    fn request(&mut self, message: &Message<'_>, id: Id<'_>, sink: &Sink, out: &mut Vec<u8>) -> Receipt {
        let mut receipt = Receipt { is_request: true, ..Receipt::default() };
        let params = params::Params::read(message.params.as_ref());
        if self.in_flight.has(&id) {
            results::refuse(out, self.dialect(), Some(&id), &results::id_in_flight(&id));
            return receipt;
        }
        let speaker = match self.speaker(&message.method, &params) {
            Ok(speaker) => speaker,
            Err(fault) => {
                let stateless = params.meta.protocol_version.is_some() || self.session.is_none();
                let dialect = if stateless { revision::newest() } else { self.dialect() };
                results::refuse(out, dialect, Some(&id), &fault);
                receipt.is_malformed = true;
                return receipt;
            }
        };
        if let Err(fault) = self.dispatch(&speaker, message, &params, &id, sink, out) {
            receipt.is_too_much = matches!(fault, Fault::Overloaded(_));
            results::refuse(out, speaker.dialect, Some(&id), &fault);
        }
        receipt
    }

    /// Finds out in which dialect a request is made: in its own, if it names one, or in the session's.
    ///
    /// See [Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    fn speaker(&self, method: &str, params: &params::Params<'_>) -> Result<Speaker, Fault> {
        let by_session = |dialect| Speaker { dialect, level: None };
        match (&self.session, params.meta.protocol_version) {
            (_, Some(version)) => {
                if let Some(source) = &self.source {
                    source.check_request(&Mirrored { version, method, subject: params.subject(method) })?;
                }
                let (dialect, level) = params.meta.stateless()?;
                Ok(Speaker { dialect, level })
            }
            (Some(session), None) => Ok(by_session(session.dialect)),
            (None, None) => {
                if let Some(source) = &self.source {
                    source.check_unversioned()?;
                }
                match method {
                    "initialize" | "ping" => Ok(by_session(revision::newest_handshake())),
                    _ => Err(Fault::invalid_params(
                        "`_meta.io.modelcontextprotocol/protocolVersion` is missing, and no session was opened with \
                         `initialize`",
                    )),
                }
            }
        }
    }
}
