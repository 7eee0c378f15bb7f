//! The transport of 2024-11-05: a stream of events that carries every message of the server, and a second path for those of the
//! client.
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
    endpoint::{self, Endpoint},
    headers,
    reading::linger,
    response::{self, Answer, HttpResponse},
    sessions::new_id,
    stream::{CancelOnDrop, Events, Manner, Stream},
};
use crate::engine::{Connection, Outbox};

const STREAM: &str = "/sse";
const MESSAGES: &str = "/message";

/// The two paths, without what browsers need.
#[derive(Debug, Clone)]
pub(super) struct Legacy {
    endpoint: Endpoint,
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<Arc<str>, Arc<Client>>>);

/// One client: its messages are received one after the other.
#[derive(Debug)]
struct Client {
    connection: tokio::sync::Mutex<Connection>,
    outbox: Arc<Outbox>,
}

/// Forgets a client when its stream ends.
#[derive(Debug)]
pub(super) struct Leave {
    clients: Arc<Clients>,
    id: Arc<str>,
}

impl Legacy {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, clients: Arc::default() }
    }

    /// Says where the requests come from that follow.
    pub(super) fn seen_from(&mut self, peer: SocketAddr) {
        self.endpoint = self.endpoint.seen_from(peer);
    }

    pub(super) fn stands_at(path: &str) -> bool {
        matches!(path, STREAM | MESSAGES)
    }

    async fn handle(self, request: Request<Incoming>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        if let Err(response) = self.endpoint.guard(&parts) {
            return *response;
        }
        match (parts.uri.path(), &parts.method) {
            (STREAM, &Method::GET) => self.open(),
            (STREAM, _) => endpoint::not_allowed("GET"),
            (_, &Method::POST) => self.receive(parts, body).await,
            _ => endpoint::not_allowed("POST"),
        }
    }

    fn open(&self) -> HttpResponse {
        let most = self.endpoint.options().max_sessions;
        let connection = Connection::new(Arc::clone(self.endpoint.engine()));
        let stream =
            Arc::new(Stream::new(0, Arc::clone(connection.outbox()), false, self.endpoint.sessions().memory()));
        let cancels = CancelOnDrop(connection.in_flight_table());
        let Some(id) = self.clients.enter(connection, most) else {
            return response::busy("there are too many sessions");
        };
        let manner = Manner { ids: false, primed: false, keep_alive: self.endpoint.options().keep_alive };
        let greeting = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let leave = Leave { clients: Arc::clone(&self.clients), id };
        let events = Events::new(stream, manner, 0, self.endpoint.closing());
        response::events(events.cancelling(Some(cancels)).greeting(greeting, leave))
    }

    async fn receive(&self, request: Parts, body: Incoming) -> HttpResponse {
        let client = match self.find(&request) {
            Ok(client) => client,
            Err(response) => {
                linger(&request, Box::pin(body));
                return *response;
            }
        };
        let body = match self.endpoint.read(&request, body, Instant::now()).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let mut connection = client.connection.lock().await;
        connection.set_source(self.endpoint.request_source(request));
        let mut answers = Vec::new();
        let receipt = connection.receive(body.bytes().trim_ascii(), Instant::now(), &mut answers);
        if receipt.is_overloaded {
            answers.truncate(answers.trim_ascii_end().len());
            return response::busy_with(answers);
        }
        client.outbox.push(&answers);
        response::empty(StatusCode::ACCEPTED)
    }

    /// Checks what can be checked before the body is there.
    fn find(&self, request: &Parts) -> Result<Arc<Client>, Box<HttpResponse>> {
        let refuse = |status, why| Err(Box::new(response::refuse_because(status, why)));
        let query = request.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default();
        let Some(client) = self.clients.table().get(id).map(Arc::clone) else {
            return refuse(StatusCode::NOT_FOUND, "there is no such session, or no longer");
        };
        if !headers::is_json(&request.headers) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json");
        }
        if client.outbox.unread() > self.endpoint.engine().limits.unread {
            return Err(Box::new(response::busy("the stream of this session is not read")));
        }
        Ok(client)
    }
}

impl Service<Request<Incoming>> for Legacy {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Answer {
        let legacy = self.clone();
        Box::pin(async move { Ok(legacy.handle(request).await) })
    }
}

impl Clients {
    /// Enters a client and gives its id; none if there are too many.
    fn enter(&self, connection: Connection, most: usize) -> Option<Arc<str>> {
        let id = new_id()?;
        let mut table = self.table();
        if table.len() >= most {
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

impl Drop for Leave {
    fn drop(&mut self) {
        self.clients.table().remove(&self.id);
    }
}
