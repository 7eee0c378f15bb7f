//! The HTTP transport of 2024-11-05: an event stream carries all messages of the server, and the client posts its
//! messages to a second path.
//!
//! A session lives as long as its stream, in the process that holds it. Other processes do not know it, even if they share
//! the backend: load balancers must send its messages to that process.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use http::{
    Method, Request, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};

use crate::{
    counters::Counter,
    engine::{Connection, InFlight, Outbox, RequestIds, RequestSource},
    error::FaultClass,
    revision::DEPRECATED_HTTP_SSE,
    stdx::Mutex,
    transport::http::{
        authorization::{admit, insufficient_scope},
        endpoint::Endpoint,
        guard,
        headers::Header,
        peers::PeerPermit,
        request::HttpRequestSource,
        request_body::{self, RequestBody, linger},
        response::{self, HttpResponse, Rejection},
        routing,
        session::{new_id, too_many_sessions},
        sse::{
            body::{CancelOnDrop, DrainedStream, StreamConfig},
            events::LocalEvents,
            stream::EventStream,
        },
    },
};

const STREAM: &str = "/sse";
const MESSAGES: &str = "/message";

/// The clients with an open stream, by the ids of their sessions. Each has a permit for a session, which bounds the
/// table. All listeners of a server share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LegacySessions(Arc<Mutex<HashMap<Arc<str>, Arc<Client>>>>);

impl LegacySessions {
    /// Returns whether this transport is responsible for a path.
    pub(super) fn serves(path: &str) -> bool {
        matches!(path, STREAM | MESSAGES)
    }

    /// Responds to a request to either path, without CORS.
    pub(super) async fn respond<B: RequestBody>(
        self,
        endpoint: Endpoint,
        request: Request<B>,
    ) -> Result<HttpResponse, Rejection> {
        let (parts, body) = request.into_parts();
        guard::check(&parts, endpoint.options())?;
        let (parts, body, response_headers) = admit(&endpoint, parts, body, Instant::now()).await?;
        let mut response = match (parts.uri.path(), &parts.method) {
            (STREAM, &Method::GET) => self.open(&endpoint, &parts),
            (STREAM, _) => response::method_not_allowed("GET"),
            (_, &Method::POST) => self.receive(&endpoint, parts, body).await.unwrap_or_else(|rejection| *rejection),
            _ => response::method_not_allowed("POST"),
        };
        response.headers_mut().extend(response_headers);
        Ok(response)
    }

    /// Opens a client's event stream, which starts with the URL for its messages.
    fn open(&self, endpoint: &Endpoint, request: &Parts) -> HttpResponse {
        DEPRECATED_HTTP_SSE.warn();
        let Some(id) = new_id() else { return response::overloaded("no session id could be generated") };
        let sessions = endpoint.sessions().local();
        let Some(permit) = sessions.reserve(&endpoint.peer_of(request)) else {
            return response::overloaded_with(response::error_message(&too_many_sessions()));
        };
        let memory = sessions.memory.of_peer(permit.peer());
        let connection = Connection::new(Arc::clone(endpoint.engine()));
        let stream = Arc::new(EventStream::new(0, Arc::clone(connection.outbox()), false, &memory));
        let cancels = CancelOnDrop(connection.in_flight().clone());
        let client = Arc::new(Client {
            principal: response::principal(request).map(Into::into),
            outbox: Arc::clone(connection.outbox()),
            in_flight: connection.in_flight().clone(),
            connection: connection.into(),
            endpoint: endpoint.clone(),
            is_closed: AtomicBool::new(false),
            _permit: permit,
        });
        let config = StreamConfig { named: true, ..endpoint.stream_config() };
        let preamble = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        self.0.lock().insert(Arc::clone(&id), Arc::clone(&client));
        let client = OpenClient { sessions: self.clone(), id, client };
        let events = Box::new(LocalEvents::new(&stream, 0));
        let body = endpoint.sse_body(request, events, config, Counter::SessionStreams);
        response::events(body.cancelling(Some(cancels)).preamble(preamble).draining(client))
    }

    /// Receives a message. Its response is sent on the client's stream.
    async fn receive<B: RequestBody>(
        &self,
        endpoint: &Endpoint,
        request: Parts,
        body: B,
    ) -> Result<HttpResponse, Rejection> {
        let client = match self.find(endpoint, &request) {
            Ok(client) => client,
            Err(rejection) => {
                linger(&request, Box::pin(body), endpoint.options().max_body_bytes);
                return Err(rejection);
            }
        };
        // The stream may have been opened at another endpoint.
        let endpoint = client.endpoint.for_connection(endpoint);
        let source = Arc::new(HttpRequestSource::new(request, &endpoint));
        let mut body = request_body::read(&endpoint, &source, body, usize::MAX, Instant::now()).await?;
        source.keep_memory(body.memory.take());
        let mut connection = client.connection.lock().await;
        let response = client.receive(&mut connection, source, body.bytes());
        drop(connection);
        // The end of the stream may wait for the message.
        client.outbox.wake();
        Ok(response)
    }

    /// Finds the client that sends a message, and checks the headers before the body is read.
    fn find(&self, endpoint: &Endpoint, request: &Parts) -> Result<Arc<Client>, Rejection> {
        let client = self.0.lock().get(session_id(request)).map(Arc::clone);
        let client = client.filter(|client| client.principal.as_deref() == response::principal(request));
        let client = client.ok_or_else(|| Box::new(session_not_found(endpoint)))?;
        let [content_type, content_encoding] = Header::find(&request.headers, [&CONTENT_TYPE, &CONTENT_ENCODING]);
        routing::check_content(content_type, content_encoding)?;
        if client.outbox.unread() > client.endpoint.engine().profile.limits.unread_bytes {
            return Err(Box::new(response::overloaded("the client is not reading the stream of this session")));
        }
        Ok(client)
    }
}

/// Returns the response to a message of a session without a stream in this process.
fn session_not_found(endpoint: &Endpoint) -> HttpResponse {
    if endpoint.engine().replicas().is_none() {
        return routing::session_not_found();
    }
    let why = "session not found or expired. Sessions of this transport exist in one process only: if there are several \
               behind a load balancer, it must send all requests of a client to the same one (sticky routing)";
    response::invalid_request(StatusCode::NOT_FOUND, why)
}

/// Returns the id of the session that a request names, or an empty text.
fn session_id(request: &Parts) -> &str {
    let query = request.uri.query().unwrap_or_default();
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default()
}

/// A client with an open stream.
#[derive(Debug)]
struct Client {
    /// The principal that opened the stream. To any other sender, the client does not exist.
    principal: Option<Box<str>>,
    /// The connection, which is locked while a message is received, so that messages are received one at a time.
    connection: tokio::sync::Mutex<Connection>,
    outbox: Arc<Outbox>,
    /// The endpoint at which the stream was opened, for the connection that carries it.
    endpoint: Endpoint,
    in_flight: Arc<InFlight>,
    /// Whether the stream has ended, although messages may still be received.
    is_closed: AtomicBool,
    _permit: PeerPermit,
}

/// A client as long as its stream is open. Dropping it removes the client and cancels its calls.
#[derive(Debug)]
struct OpenClient {
    sessions: LegacySessions,
    id: Arc<str>,
    client: Arc<Client>,
}

impl Client {
    /// Receives a message. Its response is sent on the client's stream.
    fn receive(&self, connection: &mut Connection, source: Arc<HttpRequestSource>, body: &[u8]) -> HttpResponse {
        if self.is_closed() {
            return routing::session_not_found();
        }
        connection.set_source(Arc::clone(&source) as Arc<dyn RequestSource>);
        let mut lines = Vec::new();
        let outcome = connection.receive(body.trim_ascii(), Instant::now(), &mut RequestIds::default(), &mut lines);
        self.endpoint.set_reading_session(connection.session());
        if self.is_closed() {
            // If the stream ended before the call was started, nothing else cancels the call.
            self.in_flight.cancel_all();
        }
        if let Some(fault @ (FaultClass::Overloaded | FaultClass::InsufficientScope)) = outcome.fault {
            lines.truncate(lines.trim_ascii_end().len());
            return match fault {
                FaultClass::InsufficientScope => insufficient_scope(&self.endpoint, &source, lines),
                _ => response::overloaded_with(lines),
            };
        }
        self.outbox.push(&lines);
        response::empty(StatusCode::ACCEPTED)
    }

    /// Returns whether the stream has ended, or is about to because the session has ended.
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) || self.outbox.is_closed()
    }
}

impl DrainedStream for OpenClient {
    fn close_if_idle(&self) -> bool {
        let Client { in_flight, connection, outbox, .. } = &*self.client;
        in_flight.end_listeners();
        // While the connection is locked, no message is being received.
        let Ok(_connection) = connection.try_lock() else { return false };
        let is_idle = !outbox.is_closed() && outbox.is_finished();
        if is_idle {
            outbox.close();
        }
        is_idle
    }
}

impl Drop for OpenClient {
    fn drop(&mut self) {
        self.sessions.0.lock().remove(&self.id);
        // The table must be unlocked before the calls are cancelled.
        self.client.is_closed.store(true, Ordering::Release);
        self.client.in_flight.cancel_all();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;
    use crate::{Server, transport::http::options::HttpOptions};

    const PRINCIPALS: [Option<&str>; 4] = [None, Some(""), Some("ada"), Some("eve")];

    fn request(method: Method, uri: &str, principal: Option<&str>, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(uri).header("host", "localhost");
        let mut request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        if let Some(name) = principal {
            request.extensions_mut().insert(crate::auth::Principal::new(name));
        }
        request
    }

    /// To any other sender than the principal that opened the stream, its session does not exist.
    #[test]
    fn messages_are_accepted_only_from_the_principal_that_opened_the_stream() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_senders());
    }

    async fn check_senders() {
        let built = Server::empty("legacy", "1.0.0").build().unwrap();
        for opener in PRINCIPALS {
            let endpoint = built.endpoint(HttpOptions::default());
            let sessions = LegacySessions::default();
            let opened = sessions.clone().respond(endpoint.clone(), request(Method::GET, STREAM, opener, "")).await;
            let mut stream = opened.unwrap().into_body();
            let event = stream.frame().await.unwrap().unwrap().into_data().unwrap();
            let path = std::str::from_utf8(&event).unwrap().lines().find_map(|line| line.strip_prefix("data: "));
            for sender in PRINCIPALS {
                for (kind, body) in [
                    ("a request", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
                    (
                        "a cancellation",
                        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
                    ),
                    ("an answer", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
                    ("not JSON", "{"),
                ] {
                    let request = |path| request(Method::POST, path, sender, body);
                    let post = |path| sessions.clone().respond(endpoint.clone(), request(path));
                    let response = post(path.unwrap()).await.unwrap();
                    if sender == opener {
                        assert_eq!(response.status(), StatusCode::ACCEPTED, "{kind} of {sender:?}");
                        continue;
                    }
                    let unknown = post("/message?sessionId=AAAA").await.unwrap();
                    assert_eq!(response.status(), StatusCode::NOT_FOUND, "{kind} of {sender:?} to {opener:?}");
                    assert_eq!(response.headers(), unknown.headers());
                    let (body, unknown) = (response.into_body().collect().await, unknown.into_body().collect().await);
                    assert_eq!(body.unwrap().to_bytes(), unknown.unwrap().to_bytes());
                }
            }
        }
    }
}
