//! POST: a message, and its answer.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, Limited};

use super::{
    endpoint::{self, Endpoint, check_version},
    first,
    headers::{self, HttpOrigin, SESSION, VERSION},
    response::{self, HttpResponse},
    sessions::{Busy, HttpSession},
    stream::{CancelOnDrop, Events, Manner, Stream},
};
use crate::{
    engine::{Connection, Permit, Receipt},
    error::Fault,
};

/// How long the body of a request that is refused is read, for nobody.
const LINGER: Duration = Duration::from_secs(5);

/// A request whose body is worth reading.
struct Admitted {
    session: Option<Arc<HttpSession>>,
    permit: Permit,
}

/// A message that was received, and what its answer depends on.
struct Exchange {
    connection: Connection,
    session: Option<Arc<HttpSession>>,
    is_stateless: bool,
    /// Whether a message that is no request belongs to a session, but says not to which.
    needs_session: bool,
    receipt: Receipt,
    /// The lines that are there.
    lines: Vec<u8>,
    /// Ends the calls of a stateless request when nobody waits for it any more.
    cancels: Option<CancelOnDrop>,
    busy: Option<Busy>,
}

impl Endpoint {
    pub(super) async fn post<B>(&self, request: Parts, body: B) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let admitted = match self.admit(&request) {
            Ok(admitted) => admitted,
            Err(response) => {
                linger(&request, Box::pin(body));
                return *response;
            }
        };
        let body = match self.read(&request, body).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        self.answer(self.receive(request, admitted, &body)).await
    }

    /// Checks what can be checked before the body is there.
    fn admit(&self, request: &Parts) -> Result<Admitted, Box<HttpResponse>> {
        let refuse = |status, why| Err(Box::new(response::refuse_because(status, why)));
        if !headers::is_json(&request.headers) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json");
        }
        let accepts = |kind, subtype| headers::accepts(&request.headers, kind, subtype);
        if !(accepts("application", "json") && accepts("text", "event-stream")) {
            let why = "`Accept` must take application/json and text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, why);
        }
        let permit = self.permit()?;
        let session = if endpoint::is_stateless(request) { None } else { self.find_session(request)? };
        if session.is_some() {
            check_version(request)?;
        }
        Ok(Admitted { session, permit })
    }

    /// Reads the body, which may be neither too long nor too slow.
    pub(super) async fn read<B>(&self, request: &Parts, body: B) -> Result<Bytes, Box<HttpResponse>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let most = self.options().max_body_bytes;
        let too_large = || {
            let why = format!("a body may have at most {most} bytes");
            Box::new(closing(response::refuse_because(StatusCode::PAYLOAD_TOO_LARGE, &why)))
        };
        let mut body = Box::pin(body);
        let length = request.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > most as u64) {
            linger(request, body);
            return Err(too_large());
        }
        let limited = Limited::new(body.as_mut(), most);
        match tokio::time::timeout(self.options().body_timeout, limited.collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                linger(request, body);
                Err(too_large())
            }
            Ok(Err(error)) => {
                let fault = Fault::Parse(format!("the body breaks off: {error}"));
                Err(Box::new(closing(response::refuse(StatusCode::BAD_REQUEST, &fault))))
            }
            Err(_) => {
                let why = "the body took too long";
                Err(Box::new(closing(response::refuse_because(StatusCode::REQUEST_TIMEOUT, why))))
            }
        }
    }

    /// Gives the message to the engine.
    fn receive(&self, request: Parts, admitted: Admitted, body: &[u8]) -> Exchange {
        let Admitted { session, permit } = admitted;
        let is_stateless = session.is_none();
        let needs_session = is_stateless && !endpoint::is_stateless(&request);
        let mut connection = match &session {
            Some(session) => Connection::of_session(Arc::clone(self.engine()), Arc::clone(&session.session)),
            None => Connection::of_exchange(Arc::clone(self.engine())),
        };
        connection.set_origin(Arc::new(HttpOrigin(Arc::new(request))));
        connection.set_permit(Some(permit));
        let mut answers = Vec::new();
        let receipt = connection.receive(body.trim_ascii(), &mut answers);
        // Notifications of a function come before its answer.
        let mut lines = Vec::new();
        connection.drain(&mut lines);
        lines.append(&mut answers);
        let cancels = is_stateless.then(|| CancelOnDrop(connection.flights()));
        let busy = session.as_ref().map(HttpSession::busy);
        Exchange { connection, session, is_stateless, needs_session, receipt, lines, cancels, busy }
    }

    /// Answers with JSON if there is no more than the answer, and with a stream of events otherwise.
    async fn answer(&self, mut exchange: Exchange) -> HttpResponse {
        if !exchange.receipt.is_request {
            let refuse = |why| response::refuse_because(StatusCode::BAD_REQUEST, why);
            return match (exchange.needs_session, exchange.receipt.is_response) {
                (true, _) => refuse("`Mcp-Session-Id` is missing"),
                (false, true) if exchange.is_stateless => {
                    refuse("a response answers nothing: without a session, the server makes no requests")
                }
                (false, _) => response::empty(StatusCode::ACCEPTED),
            };
        }
        let deadline = tokio::time::sleep(self.options().stream_after);
        tokio::pin!(deadline);
        let outbox = Arc::clone(exchange.connection.outbox());
        loop {
            let is_settled = outbox.awaited() == 0;
            outbox.drain(&mut exchange.lines);
            if outbox.is_listening() {
                // It lasts as long as the client likes, and is no work.
                exchange.connection.set_permit(None);
                return self.stream(exchange);
            }
            let has_lines = !exchange.lines.is_empty();
            if is_settled && count_lines(&exchange.lines) <= 1 {
                return self.answer_at_once(exchange);
            }
            if is_settled || has_lines || outbox.is_paused() {
                return self.stream(exchange);
            }
            let news = poll_fn(|cx| outbox.poll_news_or_end(cx));
            if first(news, deadline.as_mut()).await.is_err() {
                return self.stream(exchange);
            }
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
        if exchange.receipt.is_too_much {
            return response::busy_with(exchange.lines);
        }
        let status = response::status_of(&exchange.lines, is_stateless, exchange.receipt.is_malformed);
        let Some(session) = opened else { return response::json(status, exchange.lines) };
        let version = session.dialect.name();
        let Some(id) = self.sessions().open(Arc::clone(session)) else {
            return response::busy("there are too many sessions");
        };
        let mut response = response::json(status, exchange.lines);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HeaderName::from_static(SESSION), id);
        }
        response::set(&mut response, HeaderName::from_static(VERSION), version);
        response
    }

    fn stream(&self, exchange: Exchange) -> HttpResponse {
        let outbox = Arc::clone(exchange.connection.outbox());
        let (stream, manner) = match &exchange.session {
            Some(session) => (session.open_stream(outbox), self.manner(&session.session)),
            None => {
                let manner = Manner { ids: false, primed: false, keep_alive: self.options().keep_alive };
                (Arc::new(Stream::new(1, outbox, true)), manner)
            }
        };
        stream.append(&exchange.lines);
        let is_listening = exchange.connection.outbox().is_listening();
        let events = Events::new(stream, manner, 0, self.closing()).cancelling(exchange.cancels).busy(exchange.busy);
        response::events(if is_listening { events.listening() } else { events })
    }
}

/// Reads on for a while after a refusal, since most clients read only when they have written everything.
pub(super) fn linger<B>(request: &Parts, mut body: Pin<Box<B>>)
where
    B: Body<Data = Bytes> + Send + 'static,
{
    // Whoever asks before it sends the body need not send it.
    if !body.is_end_stream() && !request.headers.contains_key(header::EXPECT) {
        tokio::spawn(tokio::time::timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
    }
}

fn count_lines(lines: &[u8]) -> usize {
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}

/// Ends the connection after the response, since the rest of the request is not read.
fn closing(mut response: HttpResponse) -> HttpResponse {
    response::set(&mut response, header::CONNECTION, "close");
    response
}
