//! The transport of 2024-11-05: a stream of events that carries every message of the server, and a second path for those of the
//! client.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use hyper::body::Incoming;

use super::{
    endpoint::Endpoint,
    guard,
    headers::{self, HttpOrigin},
    response::{self, HttpResponse},
    sessions::new_id,
    stream::{CancelOnDrop, Events, Manner, Stream},
};
use crate::engine::Connection;

const STREAM: &str = "/sse";
const MESSAGES: &str = "/message";

/// The two paths.
#[derive(Debug, Clone)]
pub(super) struct Legacy {
    endpoint: Endpoint,
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<Arc<str>, Arc<Mutex<Connection>>>>);

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

    /// Answers a request to one of the two paths; none for any other.
    pub(super) async fn route(&self, request: Request<Incoming>) -> Option<HttpResponse> {
        let method = match request.uri().path() {
            STREAM => Method::GET,
            MESSAGES => Method::POST,
            _ => return None,
        };
        let (parts, body) = request.into_parts();
        if let Err(refused) = guard::check(&parts, self.endpoint.options()) {
            return Some(response::refuse_because(StatusCode::FORBIDDEN, refused.why()));
        }
        if parts.method != method {
            return Some(response::refuse_because(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not know this HTTP method",
            ));
        }
        Some(match method {
            Method::GET => self.open(),
            _ => self.receive(parts, body).await,
        })
    }

    fn open(&self) -> HttpResponse {
        let most = self.endpoint.options().max_sessions;
        let (Some(id), true) = (new_id(), self.clients.table().len() < most) else {
            return response::busy("there are too many sessions");
        };
        let connection = Connection::new(Arc::clone(self.endpoint.engine()));
        let stream = Arc::new(Stream::new(0, Arc::clone(connection.outbox()), false));
        let cancels = CancelOnDrop(connection.flights());
        self.clients.table().insert(Arc::clone(&id), Arc::new(Mutex::new(connection)));
        let manner = Manner { ids: false, primed: false, keep_alive: self.endpoint.options().keep_alive };
        let greeting = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let leave = Leave { clients: Arc::clone(&self.clients), id };
        let events = Events::new(stream, manner, 0, self.endpoint.closing());
        response::events(events.cancelling(Some(cancels)).greeting(greeting, leave))
    }

    async fn receive(&self, request: Parts, body: Incoming) -> HttpResponse {
        let query = request.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default();
        let Some(connection) = self.clients.table().get(id).map(Arc::clone) else {
            return response::refuse_because(StatusCode::NOT_FOUND, "there is no such session, or no longer");
        };
        if !headers::is_json(&request.headers) {
            let why = "`Content-Type` must be application/json";
            return response::refuse_because(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
        }
        if is_unread(&connection, self.endpoint.engine().limits.unread) {
            return response::busy("the stream of this session is not read");
        }
        let body = match self.endpoint.read(&request, body).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.set_origin(Arc::new(HttpOrigin(Arc::new(request))));
        let mut answers = Vec::new();
        connection.receive(body.trim_ascii(), &mut answers);
        connection.outbox().push(&answers);
        response::empty(StatusCode::ACCEPTED)
    }
}

fn is_unread(connection: &Mutex<Connection>, most: usize) -> bool {
    connection.lock().unwrap_or_else(PoisonError::into_inner).outbox().unread() > most
}

impl Clients {
    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Mutex<Connection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.clients.table().remove(&self.id);
    }
}
