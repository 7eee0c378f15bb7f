use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use super::{
    Engine,
    batch::Batch,
    dispatch::Speaker,
    params, results,
    shared::{Shared, Sink},
};
use crate::{
    error::Fault,
    handler::ClientInfo,
    jsonrpc::{Id, Incoming, Malformed, Message, Transmission, parse, raw},
    revision::{self, Dialect, Feature},
};

/// One peer's side of the server: what was settled with it, and its calls in flight.
///
/// A connection takes messages and gives messages. It must be driven inside a tokio runtime, since a call that has to
/// wait becomes a task.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) engine: Arc<Engine>,
    pub(super) shared: Arc<Shared>,
    pub(super) session: Option<Session>,
}

/// What `initialize` settled.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) client: Option<ClientInfo>,
}

impl Connection {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine, shared: Arc::new(Shared::new()), session: None }
    }

    /// Takes one transmission, and writes the answers that are there at once as lines. The others come out of
    /// [`drain`](Self::drain) later.
    pub(crate) fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let why = format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1);
                return self.refuse_line(None, &Fault::Parse(why), out);
            }
        };
        match parse(text) {
            Transmission::One(message) => {
                if self.handle(message, &Sink::Line, out) {
                    out.push(b'\n');
                }
            }
            Transmission::Batch(messages) => self.receive_batch(messages, out),
        }
    }

    /// Answers a message that was longer than it may be, and whose end nobody has read.
    pub(crate) fn refuse_overlong(&self, out: &mut Vec<u8>) {
        let why = format!("a message may have at most {} bytes", self.engine.limits.message);
        self.refuse_line(None, &Fault::InvalidRequest(why), out);
    }

    /// Moves the responses and notifications that became ready into a buffer; true if there were any.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        self.shared.drain(into)
    }

    /// Waits until there is something to [`drain`](Self::drain).
    pub(crate) fn poll_news(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.shared.poll_news(cx)
    }

    /// The number of calls that are not yet answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// Drops every call in flight.
    pub(crate) fn cancel_all(&self) {
        self.shared.cancel_all();
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The dialect for a message that does not say its own.
    pub(super) fn dialect(&self) -> &'static dyn Dialect {
        self.session.as_ref().map_or_else(revision::newest, |session| session.dialect)
    }

    /// Handles one message; true if a response was written.
    fn handle(&mut self, message: Result<Incoming<'_>, Malformed<'_>>, sink: &Sink, out: &mut Vec<u8>) -> bool {
        let (id, fault) = match message {
            Ok(Incoming::Request(message, id)) => return self.request(&message, id, sink, out),
            Ok(Incoming::Notification(message)) => {
                self.notification(&message);
                return false;
            }
            // Nothing is asked of a client yet, so that no answer can be expected.
            Ok(Incoming::Response) => return false,
            Err(Malformed::Parse(why)) => (None, Fault::Parse(why)),
            Err(Malformed::Invalid(id, why)) => (id, Fault::InvalidRequest(why.to_owned())),
        };
        results::refuse(out, self.dialect(), id.as_ref(), &fault);
        true
    }

    fn receive_batch(&mut self, messages: raw::Elements<'_>, out: &mut Vec<u8>) {
        if !self.dialect().has(Feature::Batching) {
            let why = format!("protocol version {} has no batches", self.dialect().name());
            return self.refuse_line(None, &Fault::InvalidRequest(why), out);
        }
        let mut messages = messages.peekable();
        if messages.peek().is_none() {
            return self.refuse_line(None, &Fault::InvalidRequest("a batch must not be empty".to_owned()), out);
        }
        let batch = Arc::new(Batch::new());
        let sink = Sink::Batch(Arc::clone(&batch));
        let mut response = Vec::new();
        for message in messages {
            response.clear();
            if self.handle(Message::read(message), &sink, &mut response) {
                batch.add(&response);
            }
        }
        batch.skip(out);
    }

    fn refuse_line(&self, id: Option<&Id<'_>>, fault: &Fault, out: &mut Vec<u8>) {
        results::refuse(out, self.dialect(), id, fault);
        out.push(b'\n');
    }

    fn request(&mut self, message: &Message<'_>, id: Id<'_>, sink: &Sink, out: &mut Vec<u8>) -> bool {
        let params = params::Params::read(message.params);
        if self.shared.is_in_flight(&id) {
            let fault = Fault::InvalidRequest(format!("a request with id {} is still in flight", id.as_json()));
            results::refuse(out, self.dialect(), Some(&id), &fault);
            return true;
        }
        let speaker = match self.speaker(&message.method, &params) {
            Ok(speaker) => speaker,
            Err(fault) => {
                let stateless = params.meta.protocol_version.is_some() || self.session.is_none();
                let dialect = if stateless { revision::newest() } else { self.dialect() };
                results::refuse(out, dialect, Some(&id), &fault);
                return true;
            }
        };
        match self.dispatch(&speaker, message, &params, &id, sink, out) {
            Ok(written) => written,
            Err(fault) => {
                results::refuse(out, speaker.dialect, Some(&id), &fault);
                true
            }
        }
    }

    /// Finds out in which dialect a request is made: in its own, if it names one, or in the session's.
    ///
    /// See [Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    fn speaker(&self, method: &str, params: &params::Params<'_>) -> Result<Speaker, Fault> {
        let by_session = |dialect| Speaker { dialect, level: None };
        match (&self.session, params.meta.protocol_version) {
            (_, Some(_)) => {
                let (dialect, level) = params.meta.stateless()?;
                Ok(Speaker { dialect, level })
            }
            (Some(session), None) => Ok(by_session(session.dialect)),
            (None, None) if matches!(method, "initialize" | "ping") => Ok(by_session(revision::newest_handshake())),
            (None, None) => Err(Fault::invalid_params(
                "`_meta.io.modelcontextprotocol/protocolVersion` is missing, and no session was opened with `initialize`",
            )),
        }
    }
}
