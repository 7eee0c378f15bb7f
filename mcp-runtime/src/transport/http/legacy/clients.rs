use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use http::{StatusCode, request::Parts};

use crate::{
    engine::{Connection, InFlight, Outbox, RequestIds, RequestSource},
    error::FaultClass,
    transport::http::{
        authorization::insufficient_scope,
        endpoint::Endpoint,
        peers::PeerPermit,
        request::HttpRequestSource,
        response::{self, HttpResponse},
        routing, sender,
        sse::body::DrainedStream,
    },
};

/// The clients with an open stream, by the ids of their sessions. Each has a permit for a session, which bounds the
/// table. All listeners of a server share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LegacySessions(Arc<Mutex<HashMap<Arc<str>, Arc<Client>>>>);

/// A client with an open stream.
#[derive(Debug)]
pub(super) struct Client {
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

/// A guard that removes a client and cancels its calls when its stream ends.
#[derive(Debug)]
pub(super) struct RemoveOnDrop {
    sessions: LegacySessions,
    id: Arc<str>,
}

impl LegacySessions {
    /// Adds a client until the returned guard is dropped.
    pub(super) fn insert(&self, id: Arc<str>, client: Arc<Client>) -> RemoveOnDrop {
        self.table().insert(Arc::clone(&id), client);
        RemoveOnDrop { sessions: self.clone(), id }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Client>> {
        self.table().get(id).map(Arc::clone)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Creates a client whose stream is opened by a request.
    pub(super) fn new(endpoint: &Endpoint, request: &Parts, connection: Connection, permit: PeerPermit) -> Self {
        Self {
            principal: sender::principal(request).map(Into::into),
            outbox: Arc::clone(connection.outbox()),
            in_flight: connection.in_flight_table(),
            connection: connection.into(),
            endpoint: endpoint.clone(),
            is_closed: AtomicBool::new(false),
            _permit: permit,
        }
    }

    /// Returns the endpoint at which the stream was opened.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns whether a request is from the principal that opened the stream.
    pub(super) fn is_sender_of(&self, request: &Parts) -> bool {
        self.principal.as_deref() == sender::principal(request)
    }

    /// Rejects a message if the client does not read its stream.
    pub(super) fn check_unread(&self) -> Result<(), Box<HttpResponse>> {
        if self.outbox.unread() > self.endpoint.engine().profile.limits.unread_bytes {
            return Err(Box::new(response::overloaded("the client is not reading the stream of this session")));
        }
        Ok(())
    }

    /// Receives a message. Its response is sent on the client's stream.
    pub(super) async fn receive(&self, source: Arc<HttpRequestSource>, body: &[u8]) -> HttpResponse {
        let mut connection = self.connection.lock().await;
        let response = self.receive_on(&mut connection, source, body);
        drop(connection);
        // The end of the stream may wait for the message.
        self.outbox.wake();
        response
    }

    fn receive_on(&self, connection: &mut Connection, source: Arc<HttpRequestSource>, body: &[u8]) -> HttpResponse {
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

impl DrainedStream for Client {
    fn close_if_idle(&self) -> bool {
        self.in_flight.end_listeners();
        // While the connection is locked, no message is being received.
        let Ok(_connection) = self.connection.try_lock() else { return false };
        let is_idle = !self.outbox.is_closed() && self.outbox.is_finished();
        if is_idle {
            self.outbox.close();
        }
        is_idle
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        // The table must be unlocked before the calls are cancelled.
        let removed = self.sessions.table().remove(&self.id);
        if let Some(client) = removed {
            client.is_closed.store(true, Ordering::Release);
            client.in_flight.cancel_all();
        }
    }
}
