//! The HTTP transport of 2024-11-05: an event stream carries all messages of the server, and the client posts its
//! messages to a second path.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task,
    time::Instant,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use hyper::body::Incoming;
use tower_service::Service;

use super::{
    endpoint::Endpoint,
    guard, headers,
    request_body::{self, linger},
    response::{self, HttpResponse},
    service::ResponseFuture,
    session::new_id,
    sse::{
        body::{CancelOnDrop, SseBody, StreamConfig},
        stream::EventStream,
    },
};
use crate::{
    engine::{Connection, Outbox},
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

/// The clients with an open stream, by id.
#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<Arc<str>, Arc<Client>>>);

/// A client with an open stream.
#[derive(Debug)]
struct Client {
    /// The connection, which is locked while a message is received, so that messages are received one at a time.
    connection: tokio::sync::Mutex<Connection>,
    outbox: Arc<Outbox>,
}

/// A guard that removes a client when its stream ends.
#[derive(Debug)]
struct RemoveOnDrop {
    clients: Arc<Clients>,
    id: Arc<str>,
}

impl LegacyService {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, clients: Arc::default() }
    }

    /// Attributes subsequent requests to this peer.
    pub(super) fn set_peer(&mut self, peer: SocketAddr) {
        self.endpoint = self.endpoint.for_peer(peer);
    }

    /// Returns whether this service is responsible for a path.
    pub(super) fn serves(path: &str) -> bool {
        matches!(path, STREAM | MESSAGES)
    }

    async fn handle(self, request: Request<Incoming>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        if let Err(rejection) = guard::check(&parts, self.endpoint.options()) {
            return *rejection;
        }
        match (parts.uri.path(), &parts.method) {
            (STREAM, &Method::GET) => self.open(),
            (STREAM, _) => response::method_not_allowed("GET"),
            (_, &Method::POST) => self.receive(parts, body).await,
            _ => response::method_not_allowed("POST"),
        }
    }

    /// Opens a client's event stream, which starts with the URL for its messages.
    fn open(&self) -> HttpResponse {
        let connection = Connection::new(Arc::clone(self.endpoint.engine()));
        let outbox = Arc::clone(connection.outbox());
        let stream = Arc::new(EventStream::new(0, outbox, false, self.endpoint.sessions().memory()));
        let cancels = CancelOnDrop(connection.in_flight_table());
        let Some(id) = self.clients.insert(connection, self.endpoint.options().max_sessions) else {
            return response::overloaded("too many sessions");
        };
        let config = StreamConfig { named: true, ..self.endpoint.stream_config() };
        let preamble = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let remove = RemoveOnDrop { clients: Arc::clone(&self.clients), id };
        let body = SseBody::new(stream.attach(), config, 0, self.endpoint.shutdown());
        response::events(body.cancelling(Some(cancels)).preamble(preamble).guarded_by(remove))
    }

    /// Receives a message. Its response is sent on the client's stream.
    async fn receive(&self, request: Parts, body: Incoming) -> HttpResponse {
        let client = match self.find(&request) {
            Ok(client) => client,
            Err(rejection) => {
                linger(&request, Box::pin(body), self.endpoint.options().max_body_bytes);
                return *rejection;
            }
        };
        let body = match request_body::read(&self.endpoint, &request, body, Instant::now()).await {
            Ok(body) => body,
            Err(rejection) => return *rejection,
        };
        let mut connection = client.connection.lock().await;
        connection.set_source(self.endpoint.request_source(request));
        let mut lines = Vec::new();
        let outcome = connection.receive(body.bytes().trim_ascii(), Instant::now(), &mut lines);
        if outcome.fault == Some(FaultClass::Overloaded) {
            lines.truncate(lines.trim_ascii_end().len());
            return response::overloaded_with(lines);
        }
        client.outbox.push(&lines);
        response::empty(StatusCode::ACCEPTED)
    }

    /// Finds the client that sends a message, and checks the headers before the body is read.
    fn find(&self, request: &Parts) -> Result<Arc<Client>, Box<HttpResponse>> {
        let reject = |status, why| Err(Box::new(response::invalid_request(status, why)));
        let query = request.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default();
        let Some(client) = self.clients.table().get(id).map(Arc::clone) else {
            return reject(StatusCode::NOT_FOUND, "session not found or expired");
        };
        if !headers::is_json(&request.headers) {
            return reject(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json");
        }
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
    /// Adds a client and returns its id, or `None` if there are already `max` clients.
    fn insert(&self, connection: Connection, max: usize) -> Option<Arc<str>> {
        let id = new_id()?;
        let mut table = self.table();
        if table.len() >= max {
            return None;
        }
        let outbox = Arc::clone(connection.outbox());
        table.insert(Arc::clone(&id), Arc::new(Client { connection: connection.into(), outbox }));
        Some(id)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.clients.table().remove(&self.id);
    }
}
