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
    http::{Request, Response, Uri, request::Parts},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    super::{message::Generation, snapshot::Capability},
    sync::lock,
};

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
    current: watch::Sender<Option<Backend>>,
    is_shutdown: watch::Sender<bool>,
    running: Mutex<HashMap<Generation, Backend>>,
    list_changes: broadcast::Sender<BTreeSet<Capability>>,
    log_messages: broadcast::Sender<String>,
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
    id: u64,
    backend: Backend,
    failed: oneshot::Receiver<String>,
    /// The reason for the failure, once it is known.
    reason: Option<String>,
    requests: mpsc::UnboundedSender<BackendRequest>,
}

/// An HTTP request that no server finishes.
#[derive(Debug)]
pub(super) struct BackendError {
    reason: String,
}

impl BackendError {
    /// Returns the reason, as the message of an error response.
    pub(super) fn reason(&self) -> &str {
        &self.reason
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
    /// Returns an error if no server can be started.
    pub(super) async fn begin(&self) -> Result<ActiveRequest, BackendError> {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let ((started, has_started), (failed, mut failure)) = (oneshot::channel(), oneshot::channel());
        let mut queued = QueuedRequest { requests: &self.requests, id: Some(id) };
        let _ = self.requests.send(BackendRequest::Begin { id, started, failed });
        let backend = tokio::select! {
            Ok(backend) = has_started => backend,
            why = &mut failure => return Err(BackendError { reason: why.unwrap_or_else(|_| STOPPED.to_owned()) }),
        };
        queued.id = None;
        Ok(ActiveRequest { id, backend, failed: failure, reason: None, requests: self.requests.clone() })
    }

    /// Returns the server for new requests.
    pub(super) fn current(&self) -> Option<Backend> {
        self.current.borrow().clone()
    }

    pub(super) fn is_current(&self, server: Generation) -> bool {
        self.current.borrow().as_ref().is_some_and(|backend| backend.generation == server)
    }

    pub(super) fn set_current(&self, backend: Backend) {
        self.current.send_replace(Some(backend));
    }

    /// Returns a server if it is still running.
    pub(super) fn running(&self, server: Generation) -> Option<Backend> {
        lock(&self.running).get(&server).cloned()
    }

    pub(super) fn add(&self, backend: Backend) {
        lock(&self.running).insert(backend.generation, backend);
    }

    pub(super) fn remove(&self, server: Generation) {
        lock(&self.running).remove(&server);
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

    /// Subscribes to the capabilities whose lists differ between successive servers.
    pub(super) fn list_changes(&self) -> broadcast::Receiver<BTreeSet<Capability>> {
        self.list_changes.subscribe()
    }

    pub(super) fn publish_list_changes(&self, changed: BTreeSet<Capability>) {
        let _ = self.list_changes.send(changed);
    }

    /// Subscribes to log messages about failed builds.
    pub(super) fn log_messages(&self) -> broadcast::Receiver<String> {
        self.log_messages.subscribe()
    }

    pub(super) fn publish_log_message(&self, message: String) {
        let _ = self.log_messages.send(message);
    }

    /// Waits for the shutdown.
    pub(super) fn shutdown(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_shutdown = self.is_shutdown.subscribe();
        async move {
            let _ = is_shutdown.wait_for(|is_shutdown| *is_shutdown).await;
        }
    }

    pub(super) fn shut_down(&self) {
        self.is_shutdown.send_replace(true);
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
}

impl ActiveRequest {
    pub(super) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Forwards a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the server exits or its grace period ends.
    pub(super) async fn send(&mut self, parts: &Parts, body: Bytes) -> Result<Response<Body>, BackendError> {
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            response = backend.send(parts, body) => match response {
                Ok(response) => Ok(response),
                Err(error) => Err(BackendError { reason: self.failure_reason(&error.to_string()).await }),
            },
            reason = self.failed() => Err(BackendError { reason }),
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

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let _ = self.requests.send(BackendRequest::End { id: self.id, server: Some(self.backend.generation) });
    }
}

/// An HTTP request that waits for a server. Dropping it ends the request, unless the id was removed.
struct QueuedRequest<'a> {
    requests: &'a mpsc::UnboundedSender<BackendRequest>,
    id: Option<u64>,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.requests.send(BackendRequest::End { id, server: None });
        }
    }
}
