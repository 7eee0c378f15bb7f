//! POST: a message, and its answer.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, request::Parts};
use http_body::Body;
use memchr::memchr;

use super::{
    endpoint::{self, Endpoint},
    first,
    headers::{self, HttpRequestSource, SESSION, VERSION},
    reading::{Received, linger},
    response::{self, HttpResponse},
    sessions::{Busy, HttpSession},
    stream::{CancelOnDrop, Events, Manner, Stream},
};
use crate::{
    engine::{Connection, ReceiveOutcome, RequestSource},
    revision,
};

/// The room that most answers need no more than.
const USUAL_ANSWER: usize = 512;

/// Where a message belongs, as far as its headers say.
enum Home {
    Session(Arc<HttpSession>),
    /// It needs none.
    Stateless,
    /// It may open a session, or say in its body what its headers do not; anything else is refused with this response.
    Nowhere(Box<HttpResponse>),
}

/// A message that was received, and what its answer depends on.
struct Exchange {
    source: Arc<HttpRequestSource>,
    connection: Connection,
    session: Option<Arc<HttpSession>>,
    is_stateless: bool,
    /// How a message that is no request is refused if it belongs to a session, but does not say to which.
    homeless: Option<Box<HttpResponse>>,
    receipt: ReceiveOutcome,
    /// The lines that are there.
    lines: Vec<u8>,
    /// Ends the calls of a stateless request when nobody waits for it any more.
    cancels: Option<CancelOnDrop>,
    busy: Option<Busy>,
}

/// How an exchange is answered.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// With one message, or none.
    Whole,
    Stream,
}

impl Endpoint {
    pub(super) async fn post<B>(&self, source: Arc<HttpRequestSource>, body: B, now: Instant) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = source.request();
        let home = match self.find_home(request, now) {
            Ok(home) => home,
            Err(response) => {
                linger(request, Box::pin(body));
                return *response;
            }
        };
        let body = match self.read(request, body, now).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        match self.try_exchange(source, home, body) {
            Ok(response) => response,
            Err(exchange) => Box::pin(self.wait(exchange)).await,
        }
    }

    /// Answers a message, or gives it back if its answer is not there yet.
    fn try_exchange(
        &self,
        source: Arc<HttpRequestSource>,
        home: Home,
        body: Received,
    ) -> Result<HttpResponse, Box<Exchange>> {
        let mut exchange = self.receive(source, home, &body);
        drop(body);
        if !exchange.receipt.is_request {
            return Ok(exchange.acknowledge());
        }
        let Some(form) = exchange.form() else { return Err(Box::new(exchange)) };
        if let (Form::Whole, Some(busy)) = (form, &mut exchange.busy) {
            busy.end = Some(exchange.connection.time());
        }
        Ok(self.answer(exchange, form))
    }

    /// Checks what can be checked before the body is there.
    fn find_home(&self, request: &Parts, now: Instant) -> Result<Home, Box<HttpResponse>> {
        let refuse = |status, why| Err(Box::new(response::refuse_because(status, why)));
        if !headers::is_json(&request.headers) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json");
        }
        if !headers::accepts_answers(&request.headers) {
            let why = "`Accept` must take application/json and text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, why);
        }
        match headers::plain(&request.headers, &VERSION) {
            Ok(Some(version)) if revision::stateless(version).is_some() => return Ok(Home::Stateless),
            version => {
                // Only the body says whether a version that is not known has sessions.
                if let Err(refusal) = endpoint::check_version(version) {
                    return Ok(Home::Nowhere(refusal));
                }
            }
        }
        let missing = || Box::new(response::refuse_because(StatusCode::BAD_REQUEST, "`Mcp-Session-Id` is missing"));
        Ok(self.find_session(request, now)?.map_or_else(|| Home::Nowhere(missing()), Home::Session))
    }

    /// Gives the message to the engine.
    fn receive(&self, source: Arc<HttpRequestSource>, home: Home, body: &Received) -> Exchange {
        let (session, homeless) = match home {
            Home::Session(session) => (Some(session), None),
            Home::Stateless => (None, None),
            Home::Nowhere(refusal) => (None, Some(refusal)),
        };
        let is_stateless = session.is_none();
        let mut connection = match &session {
            Some(session) => Connection::of_session(body.at, Arc::clone(self.engine()), Arc::clone(&session.session)),
            None => Connection::of_exchange(body.at, Arc::clone(self.engine())),
        };
        connection.set_source(Arc::clone(&source) as Arc<dyn RequestSource>);
        let mut lines = Vec::with_capacity(USUAL_ANSWER);
        let receipt = connection.receive(body.bytes().trim_ascii(), body.at, &mut lines);
        // Notifications of a function come before its answer.
        let mut before = Vec::new();
        if connection.drain(&mut before) {
            before.append(&mut lines);
            lines = before;
        }
        let cancels = is_stateless.then(|| CancelOnDrop(connection.in_flight_table()));
        let busy = session.as_ref().map(HttpSession::busy);
        Exchange { source, connection, session, is_stateless, homeless, receipt, lines, cancels, busy }
    }

    /// Waits until it is known how an exchange is answered, and answers it.
    async fn wait(&self, mut exchange: Box<Exchange>) -> HttpResponse {
        let mut deadline = pin!(tokio::time::sleep(self.options().stream_after));
        let outbox = Arc::clone(exchange.connection.outbox());
        loop {
            let news = poll_fn(|cx| outbox.poll_output_or_end(cx));
            if first(news, deadline.as_mut()).await.is_err() {
                return self.answer(*exchange, Form::Stream);
            }
            if let Some(form) = exchange.form() {
                return self.answer(*exchange, form);
            }
        }
    }

    /// Answers with JSON if there is no more than the answer, and with a stream of events otherwise.
    fn answer(&self, exchange: Exchange, form: Form) -> HttpResponse {
        match form {
            Form::Whole => self.answer_at_once(exchange),
            Form::Stream => self.stream(exchange),
        }
    }

    fn answer_at_once(&self, mut exchange: Exchange) -> HttpResponse {
        while exchange.lines.last() == Some(&b'\n') {
            exchange.lines.pop();
        }
        if exchange.lines.is_empty() {
            // The call was cancelled, by another request.
            return response::no_events();
        }
        // A request without a session, and without one being opened, is stateless, or else malformed.
        let opened = exchange.connection.session().filter(|_| exchange.session.is_none());
        let is_stateless = exchange.is_stateless && opened.is_none();
        if exchange.receipt.is_overloaded {
            return response::busy_with(exchange.lines);
        }
        let status = response::status_of(&exchange.lines, is_stateless, exchange.receipt.is_malformed);
        let Some(session) = opened else {
            drop(exchange.connection);
            let headers =
                Arc::try_unwrap(exchange.source).map(HttpRequestSource::into_empty_headers).unwrap_or_default();
            return response::json_with(headers, status, exchange.lines);
        };
        let version = session.dialect.name();
        let Some(id) = self.sessions().open(Arc::clone(session)) else {
            return response::busy("there are too many sessions");
        };
        let mut response = response::json(status, exchange.lines);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(SESSION, id);
        }
        response::set(&mut response, VERSION, version);
        response
    }

    fn stream(&self, exchange: Exchange) -> HttpResponse {
        let outbox = Arc::clone(exchange.connection.outbox());
        let (stream, manner) = match &exchange.session {
            Some(session) => (session.open_stream(outbox), self.manner(&session.session)),
            None => {
                let manner = Manner { ids: false, primed: false, keep_alive: self.options().keep_alive };
                (Arc::new(Stream::new(1, outbox, true, self.sessions().memory())), manner)
            }
        };
        stream.append(&exchange.lines);
        // What this one keeps may be what is too much, and its call may have ended long ago.
        self.sessions().relieve();
        let is_listening = exchange.connection.outbox().is_listening();
        let events = Events::new(stream, manner, 0, self.closing()).cancelling(exchange.cancels).busy(exchange.busy);
        response::events(if is_listening { events.listening() } else { events })
    }
}

impl Exchange {
    /// The response to what is no request.
    fn acknowledge(self) -> HttpResponse {
        match self.homeless {
            Some(refusal) => *refusal,
            None if self.is_stateless && self.receipt.is_response => {
                let why = "a response answers nothing: without a session, the server makes no requests";
                response::refuse_because(StatusCode::BAD_REQUEST, why)
            }
            None => response::empty(StatusCode::ACCEPTED),
        }
    }

    /// Takes what is there, and says how it is answered; none if that is not yet known.
    fn form(&mut self) -> Option<Form> {
        let outbox = self.connection.outbox();
        let is_settled = outbox.awaited() == 0;
        outbox.drain(&mut self.lines);
        match () {
            () if outbox.is_listening() => Some(Form::Stream),
            () if is_settled && is_one_line(&self.lines) => Some(Form::Whole),
            () if is_settled || !self.lines.is_empty() || outbox.is_close_requested() => Some(Form::Stream),
            () => None,
        }
    }
}

fn is_one_line(lines: &[u8]) -> bool {
    memchr(b'\n', lines).is_none_or(|end| lines[end + 1..].trim_ascii().is_empty())
}
