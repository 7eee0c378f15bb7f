//! The HTTP transport of 2024-11-05: an event stream carries all messages of the server, and the client posts its
//! messages to a second path.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task,
    time::Instant,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use http_body::Body;
use hyper::body::Incoming;
use tower_service::Service;

use super::{
    authorization::{admit, insufficient_scope},
    endpoint::Endpoint,
    guard,
    peers::{PeerPermit, Remote},
    request_body::{self, linger},
    response::{self, HttpResponse},
    routing, sender,
    service::ResponseFuture,
    session::new_id,
    sse::{
        body::{CancelOnDrop, SseBody, StreamConfig},
        stream::EventStream,
    },
};
use crate::{
    engine::{Connection, InFlight, Outbox, RequestSource},
    error::FaultClass,
};

const STREAM: &str = "/sse";
const MESSAGES: &str = "/message";

/// A service for both paths, without CORS.
#[derive(Debug, Clone)]
pub(super) struct LegacyService {
    endpoint: Endpoint,
    clients: Arc<Clients>,
}

/// The clients with an open stream, by id. Each has a permit for a session, which bounds the table.
#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<Arc<str>, Arc<Client>>>);

/// A client with an open stream.
#[derive(Debug)]
struct Client {
    /// The principal that opened the stream. To anybody else, the client does not exist.
    principal: Option<Box<str>>,
    /// The connection, which is locked while a message is received, so that messages are received one at a time.
    connection: tokio::sync::Mutex<Connection>,
    outbox: Arc<Outbox>,
    /// The client of the connection that carries the stream.
    endpoint: Endpoint,
    in_flight: Arc<InFlight>,
    /// Whether the stream has ended, although messages may still be received.
    is_closed: AtomicBool,
    _permit: PeerPermit,
}

/// A guard that removes a client and cancels its calls when its stream ends.
#[derive(Debug)]
struct RemoveOnDrop {
    clients: Arc<Clients>,
    id: Arc<str>,
}

impl LegacyService {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, clients: Arc::default() }
    }

    /// Attributes subsequent requests to this sender.
    pub(super) fn set_remote(&mut self, remote: Remote) {
        self.endpoint = self.endpoint.for_remote(remote);
    }

    /// Returns whether this service is responsible for a path.
    pub(super) fn serves(path: &str) -> bool {
        matches!(path, STREAM | MESSAGES)
    }

    async fn handle<B>(self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if let Err(rejection) = guard::check(&parts, self.endpoint.options()) {
            return *rejection;
        }
        let (parts, body, response_headers) = match admit(&self.endpoint, parts, body, Instant::now()).await {
            Ok(admitted) => admitted.split(),
            Err(rejection) => return *rejection,
        };
        let response = match (parts.uri.path(), &parts.method) {
            (STREAM, &Method::GET) => self.open(&parts),
            (STREAM, _) => response::method_not_allowed("GET"),
            (_, &Method::POST) => self.receive(parts, body).await,
            _ => response::method_not_allowed("POST"),
        };
        response_headers.add_to(response)
    }

    /// Opens a client's event stream, which starts with the URL for its messages.
    fn open(&self, request: &Parts) -> HttpResponse {
        let sessions = self.endpoint.sessions();
        let Some(permit) = sessions.reserve(&self.endpoint.peer_of(request)) else {
            return response::overloaded("too many sessions");
        };
        let memory = sessions.memory().of_peer(permit.peer());
        let connection = Connection::new(Arc::clone(self.endpoint.engine()));
        let (outbox, in_flight) = (Arc::clone(connection.outbox()), connection.in_flight_table());
        let client = Client {
            principal: sender::principal(request).map(Into::into),
            connection: connection.into(),
            outbox: Arc::clone(&outbox),
            endpoint: self.endpoint.clone(),
            in_flight: Arc::clone(&in_flight),
            is_closed: AtomicBool::new(false),
            _permit: permit,
        };
        let stream = Arc::new(EventStream::new(0, outbox, false, &memory));
        let cancels = CancelOnDrop(in_flight);
        let Some(id) = self.clients.insert(client) else {
            return response::overloaded("no session id could be generated");
        };
        let config = StreamConfig { named: true, ..self.endpoint.stream_config() };
        let preamble = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let remove = RemoveOnDrop { clients: Arc::clone(&self.clients), id };
        let body = SseBody::new(stream.attach(), config, 0, self.endpoint.shutdown());
        let body = body.until(self.endpoint.stream_deadline(request));
        response::events(body.cancelling(Some(cancels)).preamble(preamble).guarded_by(remove))
    }

    /// Receives a message. Its response is sent on the client's stream.
    async fn receive<B>(&self, request: Parts, body: B) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let source = self.endpoint.request_source(request);
        let client = match self.find(source.request()) {
            Ok(client) => client,
            Err(rejection) => {
                linger(source.request(), Box::pin(body), self.endpoint.options().max_body_bytes);
                return *rejection;
            }
        };
        let mut body = match request_body::read(&self.endpoint, &source, body, Instant::now()).await {
            Ok(body) => body,
            Err(rejection) => return *rejection,
        };
        let mut connection = client.connection.lock().await;
        if client.is_closed() {
            return routing::session_not_found();
        }
        source.keep_memory(body.take_memory());
        connection.set_source(Arc::clone(&source) as Arc<dyn RequestSource>);
        let mut lines = Vec::new();
        let outcome = connection.receive(body.bytes().trim_ascii(), Instant::now(), &mut lines);
        client.endpoint.set_reading_session(connection.session());
        if client.is_closed() {
            // If the stream ended before the call was started, nothing else cancels the call.
            client.in_flight.cancel_all();
        }
        if let Some(fault @ (FaultClass::Overloaded | FaultClass::InsufficientScope)) = outcome.fault {
            lines.truncate(lines.trim_ascii_end().len());
            return match fault {
                FaultClass::InsufficientScope => insufficient_scope(&self.endpoint, &source, lines),
                _ => response::overloaded_with(lines),
            };
        }
        client.outbox.push(&lines);
        response::empty(StatusCode::ACCEPTED)
    }

    /// Finds the client that sends a message, and checks the headers before the body is read.
    fn find(&self, request: &Parts) -> Result<Arc<Client>, Box<HttpResponse>> {
        let query = request.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default();
        let found = self.clients.table().get(id).map(Arc::clone);
        let Some(client) = found.filter(|client| client.principal.as_deref() == sender::principal(request)) else {
            return Err(Box::new(routing::session_not_found()));
        };
        routing::check_content(request)?;
        if client.outbox.unread() > self.endpoint.engine().limits.unread_bytes {
            return Err(Box::new(response::overloaded("the client is not reading the stream of this session")));
        }
        Ok(client)
    }
}

impl Service<Request<Incoming>> for LegacyService {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> ResponseFuture {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

impl Clients {
    /// Adds a client and returns its id, or `None` if the operating system provides no random bytes.
    fn insert(&self, client: Client) -> Option<Arc<str>> {
        let id = new_id()?;
        self.table().insert(Arc::clone(&id), Arc::new(client));
        Some(id)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Returns whether the stream has ended, or is about to because the session has ended.
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) || self.outbox.is_closed()
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        // The table must be unlocked before the calls are cancelled.
        let removed = self.clients.table().remove(&self.id);
        if let Some(client) = removed {
            client.is_closed.store(true, Ordering::Release);
            client.in_flight.cancel_all();
        }
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
            request.extensions_mut().insert(crate::Principal::new(name));
        }
        request
    }

    /// To anybody but the principal that opened the stream, its session does not exist.
    #[test]
    fn messages_are_accepted_only_from_the_principal_that_opened_the_stream() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_senders());
    }

    async fn check_senders() {
        let built = Server::empty("legacy", "1.0.0").build().unwrap();
        for opener in PRINCIPALS {
            let service = LegacyService::new(Endpoint::new(Arc::clone(built.engine()), None, HttpOptions::default()));
            let mut stream = service.clone().handle(request(Method::GET, STREAM, opener, "")).await.into_body();
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
                    let post = |path| service.clone().handle(request(Method::POST, path, sender, body));
                    let response = post(path.unwrap()).await;
                    if sender == opener {
                        assert_eq!(response.status(), StatusCode::ACCEPTED, "{kind} of {sender:?}");
                        continue;
                    }
                    let unknown = post("/message?sessionId=AAAA").await;
                    assert_eq!(response.status(), StatusCode::NOT_FOUND, "{kind} of {sender:?} to {opener:?}");
                    assert_eq!(response.headers(), unknown.headers());
                    let (body, unknown) = (response.into_body().collect().await, unknown.into_body().collect().await);
                    assert_eq!(body.unwrap().to_bytes(), unknown.unwrap().to_bytes());
                }
            }
        }
    }
}
