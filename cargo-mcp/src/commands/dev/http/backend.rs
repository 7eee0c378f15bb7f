//! The running servers, and the HTTP requests that they process.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, Request, Response, Uri, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    super::{
        message::{Generation, Message, RequestId, member},
        snapshot::Capability,
    },
    lock,
    respond::{is_event_stream, message_of},
};
use crate::sse::EventReader;

/// The time to find out why a server exited.
const REASON_TIMEOUT: Duration = Duration::from_secs(2);
/// The error message for requests that a shutdown interrupts.
const STOPPED: &str = "`cargo mcp dev` was stopped";

/// A server that accepts connections.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) generation: Generation,
    /// Its host and port.
    authority: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// The servers that are running. The supervisor updates them, requests use them.
#[derive(Debug)]
pub(super) struct Backends {
    requests: mpsc::UnboundedSender<BackendRequest>,
    next_request: AtomicU64,
    /// The server for new requests.
    pub(super) current: watch::Sender<Option<Backend>>,
    pub(super) is_shutdown: watch::Sender<bool>,
    pub(super) running: Mutex<HashMap<Generation, Backend>>,
    /// The capabilities whose lists differ between successive servers.
    pub(super) list_changes: broadcast::Sender<BTreeSet<Capability>>,
    /// Log messages about failed builds.
    pub(super) log_messages: broadcast::Sender<String>,
}

/// A message from an HTTP request to the supervisor.
#[derive(Debug)]
pub(super) enum BackendRequest {
    /// The HTTP request needs a server.
    Begin { id: u64, started: oneshot::Sender<Backend>, failed: oneshot::Sender<String> },
    /// The HTTP request is answered, or its client is gone. Names the server, if it had one.
    End { id: u64, server: Option<Generation> },
}

/// An HTTP request that a server processes. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    pub(super) backend: Backend,
    failed: oneshot::Receiver<String>,
    /// The reason for the failure, once it is known.
    reason: Option<String>,
    _end: EndOnDrop,
}

/// Reports the end of an HTTP request when it is dropped.
#[derive(Debug)]
struct EndOnDrop {
    id: u64,
    /// The server that processes the request, if it has one.
    server: Option<Generation>,
    requests: mpsc::UnboundedSender<BackendRequest>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let _ = self.requests.send(BackendRequest::End { id: self.id, server: self.server });
    }
}

impl Backends {
    /// Creates the backends, and the receiver for the supervisor.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<BackendRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let backends = Self {
            requests,
            next_request: AtomicU64::new(1),
            current: watch::Sender::new(None),
            is_shutdown: watch::Sender::new(false),
            running: Mutex::default(),
            list_changes: broadcast::Sender::new(16),
            log_messages: broadcast::Sender::new(16),
        };
        (backends, receiver)
    }

    /// Waits for a server, which is started if it has exited.
    ///
    /// # Errors
    ///
    /// Returns the reason if no server can be started.
    pub(super) async fn begin(&self) -> Result<ActiveRequest, String> {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let ((started, has_started), (failed, mut failure)) = (oneshot::channel(), oneshot::channel());
        let mut end = EndOnDrop { id, server: None, requests: self.requests.clone() };
        let _ = self.requests.send(BackendRequest::Begin { id, started, failed });
        let backend = tokio::select! {
            Ok(backend) = has_started => backend,
            why = &mut failure => return Err(why.unwrap_or_else(|_| STOPPED.to_owned())),
        };
        end.server = Some(backend.generation);
        Ok(ActiveRequest { backend, failed: failure, reason: None, _end: end })
    }

    /// Returns the server for new requests.
    pub(super) fn current(&self) -> Option<Backend> {
        self.current.borrow().clone()
    }

    pub(super) fn is_current(&self, server: Generation) -> bool {
        self.current.borrow().as_ref().is_some_and(|backend| backend.generation == server)
    }

    /// Returns a server if it is still running.
    pub(super) fn running(&self, server: Generation) -> Option<Backend> {
        lock(&self.running).get(&server).cloned()
    }

    /// Waits until a newer server is the current one. Returns `None` at shutdown.
    pub(super) async fn newer_than(&self, server: Generation) -> Option<Backend> {
        let mut current = self.current.subscribe();
        let is_newer = |backend: &Option<Backend>| backend.as_ref().is_some_and(|backend| backend.generation > server);
        tokio::select! {
            newer = current.wait_for(is_newer) => newer.ok()?.clone(),
            () = self.shutdown() => None,
        }
    }

    /// Waits for the shutdown.
    pub(super) fn shutdown(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_shutdown = self.is_shutdown.subscribe();
        async move {
            let _ = is_shutdown.wait_for(|is_shutdown| *is_shutdown).await;
        }
    }
}

impl Backend {
    /// Creates a client for a server at a host and port.
    ///
    /// Connections are not reused: a request must not fail because the server closes an idle one.
    pub(super) fn new(generation: Generation, authority: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { generation, authority, client }
    }

    /// Forwards a request unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or closes the connection.
    pub(super) async fn send(
        &self,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response<Body>, hyper_util::client::legacy::Error> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("http").authority(&*self.authority).path_and_query(path).build();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri.unwrap_or_default();
        *request.headers_mut() = parts.headers.clone();
        Ok(self.client.request(request).await?.map(Body::new))
    }

    /// Sends a message. Returns the headers of the HTTP response and the JSON-RPC response in it, or `None` if the
    /// connection fails.
    pub(super) async fn exchange(&self, parts: &Parts, message: String) -> Option<(HeaderMap, Option<String>)> {
        let id = member(&message, "id").and_then(RequestId::parse);
        let (head, body) = self.send(parts, message.into()).await.ok()?.into_parts();
        if !is_event_stream(&head.headers) {
            let bytes = body.collect().await.ok()?.to_bytes();
            return Some((head.headers, String::from_utf8(bytes.to_vec()).ok().filter(|text| !text.is_empty())));
        }
        let is_response =
            |text: &str| id.is_some() && Message::parse(text).and_then(|message| message.request_id()) == id;
        let mut reader = EventReader::new(body);
        while let Some(event) = reader.next().await {
            let event = event.ok()?;
            if let Some(response) = message_of(&event).filter(|text| is_response(text)) {
                return Some((head.headers, Some(response.to_owned())));
            }
        }
        Some((head.headers, None))
    }
}

impl ActiveRequest {
    /// Forwards a request.
    ///
    /// # Errors
    ///
    /// Returns the reason if the server exits or its grace period ends.
    pub(super) async fn send(&mut self, parts: &Parts, body: Bytes) -> Result<Response<Body>, String> {
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            response = backend.send(parts, body) => match response {
                Ok(response) => Ok(response),
                Err(error) => Err(self.failure_reason(&error.to_string()).await),
            },
            reason = self.failed() => Err(reason),
        }
    }

    /// Waits until the server fails to finish the request. Returns the reason.
    pub(super) async fn failed(&mut self) -> String {
        if self.reason.is_none() {
            let reason = (&mut self.failed).await;
            self.reason = Some(reason.unwrap_or_else(|_| STOPPED.to_owned()));
        }
        self.reason.clone().unwrap_or_default()
    }

    /// Returns the reason for a failure, or `observed` if the supervisor does not report a reason soon.
    pub(super) async fn failure_reason(&mut self, observed: &str) -> String {
        let reason = timeout(REASON_TIMEOUT, self.failed()).await;
        reason.unwrap_or_else(|_| format!("the server did not respond: {observed}"))
    }
}
