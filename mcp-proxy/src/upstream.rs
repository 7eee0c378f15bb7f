//! The connections to an upstream, and calls on them.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
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
    sync::{OwnedMutexGuard, mpsc},
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
/// How long a connection must live so that opening it counts as a success.
const STABLE: Duration = Duration::from_secs(5);
/// How many resources of an upstream are subscribed to at the same time.
const MAX_SUBSCRIPTIONS: usize = 256;
/// The maximum length of an error message of the upstream.
const MAX_ERROR_LENGTH: usize = 4096;

/// The code of the error of 2025-11-25 with the pages that the user must visit.
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// A function that returns the headers with the credentials of a caller.
pub(crate) type Credentials =
    dyn Fn(Option<Identity>) -> Pin<Box<dyn Future<Output = Result<HeaderMap, ConnectError>> + Send>> + Send + Sync;

/// The address of an upstream, or the program that is one.
#[derive(Clone)]
pub(crate) enum Target {
    Http { url: String, client: reqwest::Client, headers: HeaderMap, credentials: Option<Arc<Credentials>> },
    Program(Program),
}

/// An upstream of a server.
pub(crate) struct Upstream {
    /// Distinguishes the upstreams of this process.
    pub(crate) id: u64,
    pub(crate) prefix: Prefix,
    target: Target,
    /// How long connecting and reading the lists may take.
    pub(crate) timeout: Duration,
    max_message_bytes: usize,
    /// The connections by principal. The connection for callers without credentials of their own reads the lists.
    pool: Mutex<HashMap<Option<Caller>, Arc<Slot>>>,
    /// The URIs that are subscribed to, also by the next connection.
    subscriptions: Mutex<BTreeSet<String>>,
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

/// A caller with a connection of its own: the principal, and a digest of everything else that the credentials may depend on.
type Caller = (String, u64);

fn caller(identity: &Identity) -> Caller {
    let mut digest = DefaultHasher::new();
    identity.scopes().collect::<Vec<_>>().hash(&mut digest);
    identity.expires_at().hash(&mut digest);
    identity.claims::<Value>().unwrap_or_default().to_string().hash(&mut digest);
    (identity.principal().to_owned(), digest.finish())
}

/// A connection, which is opened when it is needed.
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Arc<Connection>>>,
    last_used: Mutex<Option<Instant>>,
    /// Held while the connection is opened.
    attempts: Arc<tokio::sync::Mutex<Attempts>>,
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

    /// Records an attempt. The pause grows while attempts fail, and while connections end soon after they were opened: a program
    /// may end whenever it has been started.
    fn record(&mut self, error: Option<&'static str>) {
        let (first, longest) = PAUSES;
        let limit = if self.error.is_some() { 2 * longest } else { self.pause + STABLE };
        let is_repeated = self.last.is_some_and(|last| last.elapsed() < limit);
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
        let (pool, subscriptions) = (Mutex::default(), Mutex::default());
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        (Arc::new(Self { id, prefix, target, timeout, max_message_bytes, pool, subscriptions, events }), changes)
    }

    fn slot(&self, identity: Option<&Identity>) -> Arc<Slot> {
        let key = identity.filter(|_| self.has_credentials()).map(caller);
        let mut pool = lock(&self.pool);
        if pool.len() > MAX_CONNECTIONS && !pool.contains_key(&key) {
            let unused = pool.iter().filter(|(key, _)| key.is_some()).min_by_key(|(_, slot)| *lock(&slot.last_used));
            if let Some(unused) = unused.map(|(key, _)| key.clone()) {
                pool.remove(&unused);
            }
        }
        let slot = pool.entry(key).or_default();
        *lock(&slot.last_used) = Some(Instant::now());
        Arc::clone(slot)
    }

    /// Returns whether callers have connections of their own.
    fn has_credentials(&self) -> bool {
        matches!(&self.target, Target::Http { credentials: Some(_), .. })
    }

    /// Returns the connection for a caller, and opens it if necessary. Opening it continues if the future is dropped.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        identity: Option<&Identity>,
    ) -> Result<Arc<Connection>, Unavailable> {
        let slot = self.slot(identity);
        let open = || lock(&slot.open).clone().filter(|connection| !connection.is_closed());
        if let Some(connection) = open() {
            return Ok(connection);
        }
        let attempts = Arc::clone(&slot.attempts).lock_owned().await;
        if let Some(connection) = open() {
            return Ok(connection);
        }
        if !attempts.wait().is_zero() {
            return Err(Unavailable(attempts.error.unwrap_or("the connection was lost")));
        }
        let attempt = Arc::clone(self).attempt(Arc::clone(&slot), attempts, identity.cloned());
        tokio::spawn(attempt).await.unwrap_or(Err(Unavailable("it cannot be connected to")))
    }

    async fn attempt(
        self: Arc<Self>,
        slot: Arc<Slot>,
        mut attempts: OwnedMutexGuard<Attempts>,
        identity: Option<Identity>,
    ) -> Result<Arc<Connection>, Unavailable> {
        let opened = timeout(self.timeout, self.open(identity.as_ref())).await;
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
        lock(&slot.open).clone_from(&connection);
        if let Some(connection) = connection.as_ref().filter(|_| identity.is_none() || !self.has_credentials()) {
            let uris = lock(&self.subscriptions).clone();
            let (upstream, connection) = (Arc::downgrade(&self), Arc::clone(connection));
            tokio::spawn(async move {
                for uri in uris {
                    let Some(upstream) = upstream.upgrade() else { return };
                    upstream.subscribe_on(&connection, &uri).await;
                }
            });
        }
        connection.ok_or(Unavailable(error.unwrap_or_default()))
    }

    async fn open(&self, identity: Option<&Identity>) -> Result<Connection, ConnectError> {
        let is_personal = identity.is_some() && self.has_credentials();
        match &self.target {
            Target::Program(program) => {
                Connection::open(program.start(self.max_message_bytes)?, &self.events, is_personal).await
            }
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
                Connection::open(transport, &self.events, is_personal).await
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
            // Without the name and password, which the client removes.
            if let Ok(mut url) = reqwest::Url::parse(url)
                && url.set_username("").is_ok()
                && url.set_password(None).is_ok()
            {
                text = text.replace(url.as_str(), "…");
            }
        }
        truncate(&text).escape_debug().to_string()
    }

    /// Closes a connection that has failed, so that the next call opens another one.
    fn drop_connection(&self, identity: Option<&Identity>, failed: &Arc<Connection>) {
        let slot = self.slot(identity);
        let mut open = lock(&slot.open);
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
        self: &Arc<Self>,
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
                    _ if connection.is_closed() => "the connection was lost",
                    _ => "the request failed",
                }
            };
            // Over HTTP, the failure of one request says nothing about the next one.
            if connection.is_closed() || error.is_authorization_required() {
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
            let required = data.as_ref().and_then(|data| data.get("requiredCapabilities")).cloned().unwrap_or_default();
            if required.to_string().len() > MAX_ERROR_LENGTH {
                return Fault::internal(self.prefix.message("the upstream requires capabilities"));
            }
            return Fault::MissingCapability { required };
        }
        // Of this server, these codes have a meaning to the client: another version, another session, a page to visit.
        let is_reserved = matches!(
            code,
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION | ErrorCode::HEADER_MISMATCH | ErrorCode(URL_ELICITATION_REQUIRED)
        );
        if is_reserved {
            return Fault::internal(self.prefix.message(truncate(&message)));
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
        {
            let mut subscriptions = lock(&self.subscriptions);
            if subscriptions.len() >= MAX_SUBSCRIPTIONS && !subscriptions.contains(&uri) {
                let upstream = self.prefix.as_str();
                tracing::warn!(upstream, ?uri, "an upstream has too many subscriptions: a resource is left out");
                return;
            }
            subscriptions.insert(uri.clone());
        }
        runtime.spawn(async move {
            let Some(upstream) = upstream.upgrade() else { return };
            match upstream.connection(None).await {
                Ok(connection) => upstream.subscribe_on(&connection, &uri).await,
                Err(Unavailable(reason)) => {
                    tracing::warn!(upstream = upstream.prefix.as_str(), ?uri, reason, "a subscription waits");
                }
            }
        });
    }

    async fn subscribe_on(&self, connection: &Connection, uri: &str) {
        let subscribed = timeout(self.timeout, connection.subscribe(uri, &self.events)).await;
        if !matches!(subscribed, Ok(Ok(()))) {
            lock(&self.subscriptions).remove(uri);
            let upstream = self.prefix.as_str();
            tracing::warn!(upstream, ?uri, "a resource of an upstream cannot be subscribed to");
        }
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
