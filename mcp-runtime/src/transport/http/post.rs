//! POST: receives a message and responds to it.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Instant};

use http::{HeaderValue, StatusCode};
use memchr::memchr;

use super::{
    authorization,
    endpoint::Endpoint,
    headers::{SESSION, VERSION},
    limits::too_many_unread,
    request::HttpRequestSource,
    request_body::{self, ReceivedBody, RequestBody, linger},
    response::{self, HttpResponse, Rejection},
    routing::{self, Route},
    session::{ActiveSession, StreamCalls},
    sse::{body::CancelOnDrop, events::LocalEvents, stream::EventStream},
};
use crate::{
    counters::Counter,
    engine::{Connection, ReceiveOutcome, RequestIds, RequestSource, Session, SessionMessage, write_error},
    error::{Fault, FaultClass},
    jsonrpc::{Id, raw},
    revision::{self, encode},
    stdx::race,
};

/// The capacity that suffices for most responses.
const TYPICAL_RESPONSE: usize = 512;

/// A received message and the state its response depends on.
struct Exchange {
    source: Arc<HttpRequestSource>,
    connection: Connection,
    session: Option<ActiveSession>,
    /// The response if the message names no session and is not a request. Requests may be stateless or open a session.
    rejection: Option<Rejection>,
    outcome: ReceiveOutcome,
    is_batch: bool,
    /// The output so far, as lines.
    lines: Vec<u8>,
    /// Cancels the calls of a stateless request when the client disconnects.
    cancels: Option<CancelOnDrop>,
    /// Messages for other replicas, which must be sent before the response.
    outgoing: Vec<SessionMessage>,
    /// The requests, if an event stream may carry their responses and other processes share the session.
    calls: StreamCalls,
}

#[derive(Debug, Clone, Copy)]
enum ResponseKind {
    /// One JSON message, or an empty response.
    Json,
    EventStream,
}

/// Handles a request that was admitted at `now`, without checking that its method is POST.
pub(super) async fn post<B: RequestBody>(
    endpoint: &Endpoint,
    source: Arc<HttpRequestSource>,
    body: B,
    now: Instant,
) -> Result<HttpResponse, Rejection> {
    let request = source.request();
    let routed = match routing::route(endpoint, request, now) {
        Ok(Route::Unloaded) => Box::pin(routing::load(endpoint, &source, now)).await,
        routed => routed,
    };
    let route = match routed {
        Ok(route) => route,
        Err(rejection) => {
            linger(request, Box::pin(body), endpoint.options().max_body_bytes);
            return Err(rejection);
        }
    };
    let body = request_body::read(endpoint, &source, body, usize::MAX, now).await?;
    if matches!(&route, Route::Session(active) if active.session.has_ended()) {
        return Ok(routing::session_not_found());
    }
    // Outdated if this process did not run while the body arrived, or has heard of a change.
    let is_outdated = matches!(&route, Route::Session(active) if endpoint.sessions().is_outdated(&active.session));
    let route = if is_outdated { Box::pin(routing::load(endpoint, &source, Instant::now())).await? } else { route };
    match try_respond(endpoint, source, route, body) {
        Ok(response) => Ok(response),
        Err(exchange) => Box::pin(wait(endpoint, exchange)).await,
    }
}

/// Receives a message and responds to it, or returns the exchange if the response is not ready yet.
fn try_respond(
    endpoint: &Endpoint,
    source: Arc<HttpRequestSource>,
    route: Route,
    body: ReceivedBody,
) -> Result<HttpResponse, Box<Exchange>> {
    let mut exchange = receive(endpoint, source, route, body);
    if !exchange.outgoing.is_empty() || exchange.unopened().is_some() {
        return Err(Box::new(exchange));
    }
    if !exchange.outcome.is_request {
        return Ok(acknowledge(endpoint, exchange));
    }
    let Some(kind) = exchange.poll_kind() else { return Err(Box::new(exchange)) };
    if let (ResponseKind::Json, Some(session)) = (kind, &mut exchange.session) {
        session.end = Some(exchange.connection.time());
    }
    Ok(respond(endpoint, exchange, kind))
}

/// Passes the message to the engine.
fn receive(endpoint: &Endpoint, source: Arc<HttpRequestSource>, route: Route, mut body: ReceivedBody) -> Exchange {
    let (session, rejection) = match route {
        Route::Session(session) => (Some(session), None),
        Route::Stateless | Route::Unloaded => (None, None),
        Route::Unrouted(rejection) => (None, Some(rejection)),
    };
    endpoint.set_reading_session(session.as_ref().map(|session| &session.session));
    let engine = Arc::clone(endpoint.engine());
    let mut connection = match &session {
        Some(session) => Connection::for_session(body.received_at, engine, Arc::clone(&session.session)),
        None => Connection::for_exchange(body.received_at, engine),
    };
    source.keep_memory(body.memory.take());
    connection.set_source(Arc::clone(&source) as Arc<dyn RequestSource>);
    let mut lines = endpoint.limits().buffers.take().unwrap_or_else(|| Vec::with_capacity(TYPICAL_RESPONSE));
    let mut ids = RequestIds::default();
    let is_batch = body.bytes().trim_ascii().starts_with(b"[");
    let outcome = connection.receive(body.bytes().trim_ascii(), body.received_at, &mut ids, &mut lines);
    // Read before the output is: the output of a call that ends later is part of a stream.
    let has_calls = connection.outbox().call_count() > 0;
    // Notifications of a function precede its response.
    let mut notifications = Vec::new();
    if connection.outbox().drain(&mut notifications) {
        notifications.append(&mut lines);
        lines = notifications;
    }
    if let Some(session) = &session {
        session.fail_if_ended();
    }
    // The call of a notification continues after its response.
    let cancels = (session.is_none() && outcome.is_request).then(|| CancelOnDrop(connection.in_flight().clone()));
    let is_stream = has_calls || !is_single_line(&lines);
    let calls = match &session {
        Some(session) if is_stream => session.stream_calls(&ids, is_batch),
        _ => StreamCalls::default(),
    };
    let outgoing = connection.take_outgoing();
    Exchange { source, connection, session, rejection, outcome, is_batch, lines, cancels, outgoing, calls }
}

/// Waits until the kind of the response is known, then responds.
async fn wait(endpoint: &Endpoint, mut exchange: Box<Exchange>) -> Result<HttpResponse, Rejection> {
    exchange.settle(endpoint).await?;
    if !exchange.outcome.is_request {
        return Ok(acknowledge(endpoint, *exchange));
    }
    let mut deadline = pin!(tokio::time::sleep(endpoint.options().stream_after));
    let outbox = Arc::clone(exchange.connection.outbox());
    loop {
        let output = poll_fn(|cx| outbox.poll_output_or_end(cx));
        if race(output, deadline.as_mut()).await.is_err() {
            return Ok(respond(endpoint, *exchange, ResponseKind::EventStream));
        }
        if let Some(kind) = exchange.poll_kind() {
            return Ok(respond(endpoint, *exchange, kind));
        }
    }
}

fn respond(endpoint: &Endpoint, exchange: Exchange, kind: ResponseKind) -> HttpResponse {
    match kind {
        ResponseKind::Json => json(endpoint, exchange),
        ResponseKind::EventStream => event_stream(endpoint, exchange),
    }
}

/// Responds to a message that is not a request.
fn acknowledge(endpoint: &Endpoint, exchange: Exchange) -> HttpResponse {
    if let Some(rejection) = exchange.rejection {
        return *rejection;
    }
    // A notification that is not accepted has no response, but a status.
    match exchange.outcome.fault {
        Some(FaultClass::Overloaded) => {
            let fault = Fault::Overloaded("too many calls are running".to_owned());
            return response::overloaded_with(replace_with_error(b"", &fault));
        }
        Some(FaultClass::InsufficientScope) => {
            let fault = Fault::InsufficientScope { required: exchange.source.demanded_scopes() };
            return authorization::insufficient_scope(endpoint, &exchange.source, replace_with_error(b"", &fault));
        }
        Some(class) => {
            return response::invalid_request(response::stateless_status(Some(class)), "the notification was rejected");
        }
        None => {}
    }
    if exchange.session.is_none() && exchange.outcome.is_response {
        let why = "unexpected response: the server sends no requests outside a session";
        return response::invalid_request(StatusCode::BAD_REQUEST, why);
    }
    response::empty(StatusCode::ACCEPTED)
}

/// Responds with one JSON message, and opens a session if the message was an `initialize` request.
fn json(endpoint: &Endpoint, mut exchange: Exchange) -> HttpResponse {
    while exchange.lines.last() == Some(&b'\n') {
        exchange.lines.pop();
    }
    if exchange.lines.is_empty() {
        // Another request has cancelled the call.
        return response::no_events();
    }
    let fault = exchange.outcome.fault.or_else(|| exchange.connection.outbox().fault());
    match fault {
        Some(FaultClass::Overloaded) => return response::overloaded_with(exchange.lines),
        // Other calls of the batch may have succeeded, unless it was rejected as a whole.
        Some(FaultClass::InsufficientScope) if exchange.outcome.fault.is_some() || exchange.lines[0] == b'{' => {
            return authorization::insufficient_scope(endpoint, &exchange.source, exchange.lines);
        }
        _ => {}
    }
    // The session that the message has opened.
    let opened = exchange.connection.session().filter(|_| exchange.session.is_none());
    let message = match endpoint.limits().count_response(exchange.source.peer(), std::mem::take(&mut exchange.lines)) {
        Ok(message) => message,
        Err(message) => {
            opened.into_iter().for_each(|session| endpoint.sessions().discard(session));
            return response::overloaded_with(replace_with_error(&message, &too_many_unread()));
        }
    };
    // A request that neither belongs to a session nor opens one is stateless or malformed.
    let is_stateless = exchange.session.is_none() && opened.is_none();
    let status = if exchange.outcome.is_malformed {
        StatusCode::BAD_REQUEST
    } else if is_stateless {
        response::stateless_status(fault)
    } else {
        StatusCode::OK
    };
    let Some(session) = opened else {
        drop(exchange.connection);
        let headers = Arc::try_unwrap(exchange.source).map(HttpRequestSource::into_empty_headers).unwrap_or_default();
        return response::json_with(headers, status, message);
    };
    let mut response = response::json(status, message);
    if let Ok(id) = HeaderValue::from_str(session.id().unwrap_or_default()) {
        response.headers_mut().insert(SESSION, id);
    }
    response::set(&mut response, VERSION, session.info.dialect.name());
    response
}

/// Encodes the error that replaces a response, or those that replace the responses to a batch.
fn replace_with_error(message: &[u8], fault: &Fault) -> Vec<u8> {
    let text = std::str::from_utf8(message).unwrap_or_default();
    let write = |out: &mut Vec<u8>, response: &str| {
        let id =
            raw::members(response).find_map(|(name, value)| if name == "id" { Id::from_json(value) } else { None });
        write_error(out, revision::newest(), id.as_ref(), fault);
    };
    let mut errors = Vec::new();
    if raw::kind(text) == raw::Kind::Array {
        encode::array(&mut errors, raw::elements(text), write);
    } else {
        write(&mut errors, text);
    }
    errors
}

/// Responds with an event stream.
fn event_stream(endpoint: &Endpoint, exchange: Exchange) -> HttpResponse {
    let outbox = Arc::clone(exchange.connection.outbox());
    let is_subscription = outbox.is_listening();
    let config = match &exchange.session {
        Some(session) => endpoint.session_stream_config(&session.session),
        None => endpoint.stream_config(),
    };
    let events = match &exchange.session {
        Some(session) => session.open_stream(outbox, exchange.calls, exchange.lines),
        None => {
            let memory = endpoint.sessions().local().memory.of_peer(exchange.source.peer());
            let events = LocalEvents::new(&Arc::new(EventStream::new(1, outbox, true, &memory)), 0);
            events.stream.append(&exchange.lines);
            Box::new(events)
        }
    };
    // The streams may now exceed their memory limit. If the call has ended, nothing else would evict one.
    endpoint.sessions().local().evict_streams();
    let kind = if is_subscription { Counter::SubscriptionStreams } else { Counter::CallStreams };
    let body = endpoint.sse_body(exchange.source.request(), events, config, kind);
    response::events(body.cancelling(exchange.cancels).active(exchange.session))
}

impl Exchange {
    /// Returns the session that the message has opened, unless it was added to the sessions of the endpoint.
    fn unopened(&self) -> Option<&Arc<Session>> {
        self.connection.session().filter(|session| self.session.is_none() && session.id().is_none())
    }

    /// Opens the session that the message has begun, or sends the messages that other processes must receive before the
    /// response is sent.
    ///
    /// # Errors
    ///
    /// Returns the response that replaces the response of the message if that fails.
    async fn settle(&mut self, endpoint: &Endpoint) -> Result<(), Rejection> {
        if let Some(session) = self.unopened() {
            return endpoint.sessions().open(session, self.source.peer()).await.map_err(|fault| {
                // The session was never announced, so nothing else would stop its pings.
                session.end();
                self.reject(&fault)
            });
        }
        let outgoing = std::mem::take(&mut self.outgoing);
        let Some(session) = self.session.as_ref().filter(|_| !outgoing.is_empty()) else { return Ok(()) };
        match endpoint.sessions().send(&session.session, outgoing).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Box::new(routing::session_not_found())),
            // Functions of the batch may have run, so the client must not repeat it.
            Err(error) if self.is_batch && self.outcome.is_request => {
                tracing::warn!(%error, "other processes do not learn the notifications of a batch");
                Ok(())
            }
            Err(error) => Err(self.reject(&error.into())),
        }
    }

    fn reject(&self, fault: &Fault) -> Rejection {
        Box::new(response::overloaded_with(replace_with_error(&self.lines, fault)))
    }

    /// Collects pending output and returns the kind of the response, or `None` if it is not known yet.
    fn poll_kind(&mut self) -> Option<ResponseKind> {
        let outbox = self.connection.outbox();
        let is_settled = outbox.call_count() == 0;
        outbox.drain(&mut self.lines);
        if outbox.is_listening() {
            return Some(ResponseKind::EventStream);
        }
        if is_settled && is_single_line(&self.lines) {
            return Some(ResponseKind::Json);
        }
        let is_stream = is_settled || !self.lines.is_empty() || outbox.is_close_requested();
        is_stream.then_some(ResponseKind::EventStream)
    }
}

fn is_single_line(lines: &[u8]) -> bool {
    memchr(b'\n', lines).is_none_or(|end| lines[end + 1..].trim_ascii().is_empty())
}
