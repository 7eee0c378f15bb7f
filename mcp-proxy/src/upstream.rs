//! The connections to an upstream, and calls on them.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use http::HeaderMap;
use mcp_runtime::{Context, Fault, Handle, auth::Identity};
use rmcp::{
    ErrorData, ServiceError,
    model::{ClientRequest, ErrorCode, InputResponses, ServerResult},
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::{
    Error,
    child::Program,
    connection::{CallError, ConnectError, Connection, Listener},
    convert::Prefix,
};

/// How many callers with credentials of their own have a connection at the same time. The connection that was unused for the
/// longest time is closed for a new one.
const MAX_CONNECTIONS: usize = 64;
/// The first and the longest pause between two attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// The maximum length of an error message of the upstream.
const MAX_ERROR_LENGTH: usize = 4096;

/// A function that returns the headers with the credentials of a caller.
pub(crate) type Credentials =
    dyn Fn(Option<Identity>) -> Pin<Box<dyn Future<Output = Result<HeaderMap, ConnectError>> + Send>> + Send + Sync;

/// Where an upstream is.
#[derive(Clone)]
pub(crate) enum Target {
    Http { url: String, client: reqwest::Client, headers: HeaderMap, credentials: Option<Arc<Credentials>> },
    Program(Program),
}

/// An upstream of a server.
pub(crate) struct Upstream {
    pub(crate) prefix: Prefix,
    target: Target,
    /// How long connecting and reading the lists may take.
    pub(crate) timeout: Duration,
    max_message_bytes: usize,
    /// The connections by principal. The connection for callers without credentials of their own reads the lists.
    pool: Mutex<HashMap<Option<String>, Arc<Place>>>,
    pub(crate) events: Arc<Events>,
}

/// Passes announcements of the upstream to the server.
pub(crate) struct Events {
    prefix: Prefix,
    handle: Handle,
    changed: mpsc::Sender<()>,
}

impl Listener for Events {
    fn changed(&self) {
        // A full channel contains an announcement already.
        let _ = self.changed.try_send(());
    }

    fn resource_updated(&self, uri: &str) {
        self.handle.resource_updated(self.prefix.uri(uri));
    }
}

/// The place of a connection, which is opened when it is needed.
#[derive(Default)]
struct Place {
    open: Mutex<Option<Arc<Connection>>>,
    last_used: Mutex<Option<Instant>>,
    /// Held while the connection is opened.
    attempts: tokio::sync::Mutex<Attempts>,
}

/// The attempts to open a connection.
#[derive(Default)]
struct Attempts {
    pause: Duration,
    last: Option<Instant>,
    error: Option<&'static str>,
}

impl Attempts {
    /// Returns how long the next attempt must wait.
    fn wait(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| self.pause.saturating_sub(last.elapsed()))
    }

    /// Records an attempt. The pause grows while attempts follow each other, even if they succeed: a program may end whenever
    /// it has been started.
    fn record(&mut self, error: Option<&'static str>) {
        let (first, longest) = PAUSES;
        let is_repeated = self.last.is_some_and(|last| last.elapsed() < 2 * longest);
        self.pause = if is_repeated { (self.pause * 2).clamp(first, longest) } else { first };
        self.last = Some(Instant::now());
        self.error = error;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An upstream that cannot be used, with the reason for clients.
#[derive(Debug)]
pub(crate) struct Unavailable(&'static str);

impl Upstream {
    pub(crate) fn new(
        prefix: Prefix,
        target: Target,
        timeout: Duration,
        max_message_bytes: usize,
        handle: Handle,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let (changed, changes) = mpsc::channel(1);
        let events = Arc::new(Events { prefix: prefix.clone(), handle, changed });
        let pool = Mutex::default();
        (Arc::new(Self { prefix, target, timeout, max_message_bytes, pool, events }), changes)
    }

    fn place(&self, identity: Option<&Identity>) -> Arc<Place> {
        let has_credentials = matches!(&self.target, Target::Http { credentials: Some(_), .. });
        let key = identity.filter(|_| has_credentials).map(|identity| identity.principal().to_owned());
        let mut pool = lock(&self.pool);
        if pool.len() > MAX_CONNECTIONS && !pool.contains_key(&key) {
            let unused = pool.iter().filter(|(key, _)| key.is_some()).min_by_key(|(_, place)| *lock(&place.last_used));
            if let Some(unused) = unused.map(|(key, _)| key.clone()) {
                pool.remove(&unused);
            }
        }
        let place = pool.entry(key).or_default();
        *lock(&place.last_used) = Some(Instant::now());
        Arc::clone(place)
    }

    /// Returns the connection for a caller, and opens it if necessary.
    pub(crate) async fn connection(&self, identity: Option<&Identity>) -> Result<Arc<Connection>, Unavailable> {
        let place = self.place(identity);
        let open = || lock(&place.open).clone().filter(|connection| !connection.is_closed());
        if let Some(connection) = open() {
            return Ok(connection);
        }
        let mut attempts = place.attempts.lock().await;
        if let Some(connection) = open() {
            return Ok(connection);
        }
        if !attempts.wait().is_zero() {
            return Err(Unavailable(attempts.error.unwrap_or("the connection was lost")));
        }
        let opened = timeout(self.timeout, self.open(identity)).await;
        let (connection, error) = match opened {
            Ok(Ok(connection)) => (Some(Arc::new(connection)), None),
            Ok(Err(error)) => {
                tracing::warn!(
                    upstream = self.prefix.as_str(),
                    error = self.describe(&*error),
                    "an upstream is unavailable"
                );
                (None, Some("it cannot be connected to"))
            }
            Err(_) => {
                tracing::warn!(upstream = self.prefix.as_str(), timeout = ?self.timeout, "an upstream does not answer");
                (None, Some("it does not answer"))
            }
        };
        attempts.record(error);
        lock(&place.open).clone_from(&connection);
        connection.ok_or(Unavailable(error.unwrap_or_default()))
    }

    async fn open(&self, identity: Option<&Identity>) -> Result<Connection, ConnectError> {
        match &self.target {
            Target::Program(program) => Connection::open(program.start(self.max_message_bytes)?, &self.events).await,
            Target::Http { url, client, headers, credentials } => {
                let mut headers = headers.clone();
                if let Some(credentials) = credentials {
                    headers.extend(credentials(identity.cloned()).await?);
                }
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(1024)
                    .max_sse_event_size(self.max_message_bytes)
                    .max_json_response_size(self.max_message_bytes);
                config.custom_headers = headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                Connection::open(transport, &self.events).await
            }
        }
    }

    /// Describes an error for the log, without the URL, which may contain a secret.
    pub(crate) fn describe(&self, error: &(dyn std::error::Error + 'static)) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        if let Target::Http { url, .. } = &self.target {
            text = text.replace(url, "…");
        }
        truncate(&text).escape_debug().to_string()
    }

    /// Closes a connection that has failed, so that the next call opens another one.
    fn drop_connection(&self, identity: Option<&Identity>, failed: &Arc<Connection>) {
        let place = self.place(identity);
        let mut open = lock(&place.open);
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, failed)) {
            *open = None;
            self.events.changed();
        }
    }

    /// Sends the request of a call, once more if the connection had been closed before.
    ///
    /// # Errors
    ///
    /// Returns the error for the client.
    pub(crate) async fn call(
        &self,
        ctx: &Context,
        request: impl Fn(Option<InputResponses>, Option<String>) -> ClientRequest,
    ) -> Result<ServerResult, Failure> {
        let identity = ctx.identity();
        let mut is_repeated = false;
        loop {
            let connection = self.connection(identity).await.map_err(|error| self.unavailable(error.0))?;
            let error = match connection.call(ctx, &self.prefix, &request).await {
                Ok(result) => return Ok(result),
                Err(CallError::Fault(fault)) => return Err(Failure::Fault(fault)),
                Err(CallError::Service(ServiceError::McpError(error))) => {
                    return Err(Failure::Fault(self.fault(error)));
                }
                Err(CallError::NotSent) if !is_repeated => {
                    self.drop_connection(identity, &connection);
                    is_repeated = true;
                    continue;
                }
                Err(CallError::NotSent) => ServiceError::TransportClosed,
                Err(CallError::Service(error)) => error,
            };
            let reason = if error.is_authorization_required() {
                "it rejects the credentials of this server"
            } else {
                match &error {
                    ServiceError::UnexpectedResponse => "its response is invalid",
                    _ => "the connection was lost",
                }
            };
            if !matches!(error, ServiceError::UnexpectedResponse | ServiceError::Cancelled { .. }) {
                self.drop_connection(identity, &connection);
            }
            tracing::warn!(
                upstream = self.prefix.as_str(),
                error = self.describe(&error),
                "a call of an upstream failed"
            );
            return Err(self.unavailable(reason));
        }
    }

    /// Returns the failure of a call for a reason that clients may read.
    pub(crate) fn unavailable(&self, reason: &str) -> Failure {
        Failure::Unavailable(self.prefix.message(&format!("the upstream is unavailable: {reason}")))
    }

    /// Returns an error response of the upstream as the fault of this server.
    fn fault(&self, error: ErrorData) -> Fault {
        let ErrorData { code, message, data, .. } = error;
        if code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
            let required = data.map(|mut data| data["requiredCapabilities"].take()).unwrap_or_default();
            return Fault::MissingCapability { required };
        }
        // The code of sessions, and the code of stateless revisions.
        if matches!(code, ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_PARAMS)
            && let Some(uri) = data.as_ref().and_then(|data| data["uri"].as_str())
        {
            return Fault::resource_not_found(self.prefix.uri(uri));
        }
        let data = data.filter(|data: &Value| data.to_string().len() <= MAX_ERROR_LENGTH);
        Fault::Custom { code: code.0, message: truncate(&message).to_owned(), data }
    }

    /// Subscribes to a resource in the background.
    pub(crate) fn subscribe(self: &Arc<Self>, uri: &str) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (upstream, uri): (Weak<Self>, _) = (Arc::downgrade(self), self.prefix.upstream_uri(uri).to_owned());
        runtime.spawn(async move {
            let Some(upstream) = upstream.upgrade() else { return };
            let subscribed = async {
                let connection = upstream.connection(None).await.ok()?;
                timeout(upstream.timeout, connection.subscribe(&uri, &upstream.events)).await.ok()?.ok()
            };
            if subscribed.await.is_none() {
                tracing::warn!(
                    upstream = upstream.prefix.as_str(),
                    ?uri,
                    "a resource of an upstream cannot be subscribed to"
                );
            }
        });
    }
}

/// Why a call has no result.
pub(crate) enum Failure {
    /// The upstream cannot be used: a model may decide to do without it.
    Unavailable(String),
    Fault(Fault),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(message) => Self::internal(message),
            Failure::Fault(fault) => fault,
        }
    }
}

/// Returns the client for HTTP, which follows no redirects: they could take credentials to another host.
pub(crate) fn http_client() -> Result<reqwest::Client, Error> {
    // For `https://`. Fails if the program has chosen another provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    client.map_err(|error| Error::new(format!("the HTTP client cannot be created: {error}")))
}

fn truncate(text: &str) -> &str {
    match text.char_indices().find(|(index, letter)| index + letter.len_utf8() > MAX_ERROR_LENGTH) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
