//! The connections to an upstream, and calls on them.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_runtime::{Context, Fault, Handle, ask::UrlElicitation, auth::Identity};
use rmcp::{
    ErrorData, ServiceError,
    model::{ClientRequest, ErrorCode, InputResponses, ServerResult},
    service::ClientLifecycleMode,
    transport::streamable_http_client::{
        StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
    },
};
use serde_json::Value;
use tokio::{
    sync::{Notify, OwnedMutexGuard, mpsc},
    time::{Instant, timeout},
};

use crate::{
    Error,
    attempts::Attempts,
    child::Program,
    connection::{CallError, ConnectError, Connection},
    convert::{Prefix, make_printable, printable},
    http_client::HttpClient,
    pages::Pages,
    transport::Listener,
};

/// How many callers have a connection of their own at the same time. The connection that was unused for the
/// longest time is closed for a new one.
const MAX_CONNECTIONS: usize = 64;
/// How many connections a principal has at the same time whose credentials change, such as with each access token.
const MAX_OWN_CONNECTIONS: usize = 8;
/// The time for which an unused HTTP connection is kept. Node.js, uvicorn and Apache close theirs after 5 s, and a call that
/// is sent at that moment fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum length of an error message of the upstream.
const MAX_ERROR_LENGTH: usize = 4096;

/// The minimum time between two reads of the list of tools because of calls that are rejected.
const HEADERS_PAUSE: Duration = Duration::from_secs(5);

/// Why an upstream that speaks only the transport of 2024-11-05 is unavailable.
const ONLY_SSE: &str = "it speaks HTTP+SSE, which Streamable HTTP has replaced: use another URL of it, or a bridge such as `mcp-remote` as a command";

/// The code of the error of 2025-11-25 with the pages that the user must visit.
const URL_ELICITATION_REQUIRED: i32 = -32042;
/// The codes that the specification keeps for itself. Servers must not send those that it has not defined.
///
/// See [Errors](https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes).
const RESERVED_CODES: std::ops::RangeInclusive<i32> = -32099..=-32020;

/// The maximum number of pages that the user must visit for a call. Further ones are left out: a repeated call can require them.
const MAX_REQUIRED_URLS: usize = 16;

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
    pub(crate) target: Target,
    /// Whether each principal has a connection of its own.
    is_per_caller: bool,
    /// Whether a session is opened, and with which revision.
    lifecycle: ClientLifecycleMode,
    /// How long connecting, reading the lists and subscribing to their changes may take.
    pub(crate) timeout: Duration,
    max_message_bytes: usize,
    /// Whether the upstream has listed a tool with arguments that are also sent as headers.
    pub(crate) has_header_arguments: AtomicBool,
    /// The connections by principal. The connection for callers without credentials of their own reads the lists.
    pool: Mutex<HashMap<Option<Caller>, Arc<Slot>>>,
    /// The URIs that clients are subscribed to. The server limits their number for each client.
    pub(crate) subscribed: Mutex<BTreeMap<String, Wanted>>,
    pub(crate) events: Arc<Events>,
}

/// A resource that clients are subscribed to.
#[derive(Default)]
pub(crate) struct Wanted {
    /// How many times.
    pub(crate) count: usize,
    pub(crate) attempts: Attempts,
}

/// Passes announcements of the upstream to the server.
pub(crate) struct Events {
    prefix: Prefix,
    handle: Handle,
    changed: mpsc::Sender<()>,
    /// The signal that clients want other resources, that a subscription has ended, or that there is another connection.
    pub(crate) resubscribe: Notify,
    /// Whether updates of resources may be lost, and the clients have not been told.
    pub(crate) has_missed_updates: AtomicBool,
}

impl Listener for Events {
    fn changed(&self) {
        // A full channel contains an announcement already.
        let _ = self.changed.try_send(());
    }

    fn resource_updated(&self, uri: &str) {
        self.handle.resource_updated(self.prefix.uri(uri));
    }

    fn unsubscribed(&self) {
        self.resubscribe.notify_one();
    }

    fn stream_opened(&self) {
        self.changed();
        self.has_missed_updates.store(true, Ordering::Release);
        self.resubscribe.notify_one();
    }
}

/// A caller with a connection of its own: the principal, and a digest of everything else that its credentials may depend on.
type Caller = (String, u64);

fn caller(identity: &Identity, has_credentials: bool) -> Caller {
    let mut digest = DefaultHasher::new();
    if !has_credentials {
        return (identity.principal().to_owned(), digest.finish());
    }
    identity.scopes().collect::<Vec<_>>().hash(&mut digest);
    identity.expires_at().hash(&mut digest);
    identity.claims::<Value>().unwrap_or_default().to_string().hash(&mut digest);
    (identity.principal().to_owned(), digest.finish())
}

/// A connection, which is opened when it is needed.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) open: Mutex<Option<Arc<Connection>>>,
    last_used: Mutex<Option<Instant>>,
    /// Held while the connection is opened.
    attempts: Arc<tokio::sync::Mutex<Attempts>>,
}

impl Slot {
    /// Returns whether no call uses the connection, which would otherwise continue beside its successor.
    fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && lock(&self.open).as_ref().is_none_or(|open| Arc::strong_count(open) == 1)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An upstream that cannot be used, with the reason for clients.
#[derive(Debug)]
pub(crate) struct Unavailable(&'static str);

impl Upstream {
    pub(crate) fn new(
        prefix: Prefix,
        target: Target,
        is_per_caller: bool,
        lifecycle: ClientLifecycleMode,
        timeout: Duration,
        max_message_bytes: usize,
        handle: Handle,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let (changed, changes) = mpsc::channel(1);
        let (resubscribe, has_missed_updates) = (Notify::new(), AtomicBool::new(false));
        let events = Arc::new(Events { prefix: prefix.clone(), handle, changed, resubscribe, has_missed_updates });
        let (has_header_arguments, pool, subscribed) = Default::default();
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let upstream = Self {
            id,
            prefix,
            target,
            is_per_caller,
            lifecycle,
            timeout,
            max_message_bytes,
            has_header_arguments,
            pool,
            subscribed,
            events,
        };
        (Arc::new(upstream), changes)
    }

    pub(crate) fn slot(&self, identity: Option<&Identity>) -> Result<Arc<Slot>, Unavailable> {
        let key = identity.filter(|_| self.is_per_caller).map(|identity| caller(identity, self.has_credentials()));
        let principal = |key: &Option<Caller>| key.as_ref().map(|(principal, _)| principal.clone());
        let mut pool = lock(&self.pool);
        let is_other = |other| principal(other) != principal(&key);
        let own = if key.is_some() { pool.keys().filter(|other| !is_other(other)).count() } else { 0 };
        if (pool.len() > MAX_CONNECTIONS || own >= MAX_OWN_CONNECTIONS) && !pool.contains_key(&key) {
            let may_end = |other| own < MAX_OWN_CONNECTIONS || !is_other(other);
            let unused = pool.iter().filter(|(key, slot)| key.is_some() && may_end(key) && Slot::is_unused(slot));
            let unused = unused.min_by_key(|(other, slot)| (is_other(other), *lock(&slot.last_used)));
            let reason = if own < MAX_OWN_CONNECTIONS {
                "too many callers use it"
            } else {
                "this caller uses too many credentials"
            };
            let unused = unused.map(|(key, _)| key.clone()).ok_or(Unavailable(reason))?;
            pool.remove(&unused);
        }
        let slot = pool.entry(key).or_default();
        *lock(&slot.last_used) = Some(Instant::now());
        Ok(Arc::clone(slot))
    }

    /// Returns whether callers have credentials of their own.
    fn has_credentials(&self) -> bool {
        matches!(&self.target, Target::Http { credentials: Some(_), .. })
    }

    /// Returns the connection for a caller, and opens it if necessary. Opening it continues if the future is dropped.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        identity: Option<&Identity>,
    ) -> Result<Arc<Connection>, Unavailable> {
        let slot = self.slot(identity)?;
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

    /// Returns why an upstream that is unavailable needs another configuration.
    pub(crate) async fn mistake(self: &Arc<Self>) -> Option<String> {
        // The next attempt is later, and this is the error of the last one.
        let error = self.connection(None).await.err().filter(|error| error.0 == ONLY_SSE)?;
        Some(Fault::from(self.unavailable(error.0)).to_string())
    }

    async fn attempt(
        self: Arc<Self>,
        slot: Arc<Slot>,
        mut attempts: OwnedMutexGuard<Attempts>,
        identity: Option<Identity>,
    ) -> Result<Arc<Connection>, Unavailable> {
        // A program may take long to start, and each failure ends it.
        let opened = timeout(self.timeout.saturating_add(2 * attempts.pause()), self.open(identity.as_ref())).await;
        let (connection, error) = match opened {
            Ok(Ok(connection)) => {
                if connection.is_stateless && self.has_header_arguments.load(Ordering::Relaxed) {
                    self.read_header_arguments(&connection).await;
                }
                (Some(Arc::new(connection)), None)
            }
            Ok(Err((reason, error))) => {
                let program = match &self.target {
                    Target::Program(program) => Some(program.path.to_string_lossy()),
                    Target::Http { .. } => None,
                };
                tracing::warn!(
                    upstream = self.prefix.as_str(),
                    program = program.as_deref(),
                    error = self.describe(&*error),
                    reason,
                    "an upstream is unavailable"
                );
                (None, Some(reason))
            }
            Err(_) => {
                tracing::warn!(upstream = self.prefix.as_str(), timeout = ?self.timeout, "an upstream does not answer");
                (None, Some("it does not answer"))
            }
        };
        attempts.record(error);
        lock(&slot.open).clone_from(&connection);
        self.events.resubscribe.notify_one();
        connection.ok_or(Unavailable(error.unwrap_or_default()))
    }

    /// Reads which arguments of tools calls on this connection also send as headers.
    async fn read_header_arguments(&self, connection: &Connection) {
        if !matches!(timeout(self.timeout, connection.read_tools()).await, Ok(Ok(()))) {
            let upstream = self.prefix.as_str();
            tracing::warn!(upstream, "the tools of an upstream cannot be read: their calls may lack headers");
        }
    }

    /// Reads the lists again after a call was rejected because of its headers, unless that has happened since the call
    /// began, or was tried recently. Returns whether the call can be repeated.
    async fn renew_header_arguments(&self, connection: &Connection, began: Instant) -> bool {
        let mut read = connection.tools_read.lock().await;
        if read.is_some_and(|read| read > began) {
            return true;
        }
        if !connection.is_stateless || read.is_some_and(|read| read.elapsed() < HEADERS_PAUSE) {
            return false;
        }
        self.events.changed();
        self.read_header_arguments(connection).await;
        *read = Some(Instant::now());
        true
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Returns a reason for clients, and the error for the log.
    async fn open(&self, identity: Option<&Identity>) -> Result<Connection, (&'static str, ConnectError)> {
        let failed = |error| ("it cannot be connected to", error);
        let has_single_principal = identity.is_some() && self.is_per_caller;
        match &self.target {
            Target::Program(program) => {
                let transport = program.start(self.max_message_bytes).map_err(|error| failed(error.into()))?;
                Connection::open(transport, &self.events, has_single_principal, self.lifecycle.clone(), self.timeout)
                    .await
                    .map_err(failed)
            }
            Target::Http { url, client, headers, credentials } => {
                let mut headers = headers.clone();
                if let Some(credentials) = credentials {
                    let given = credentials(identity.cloned()).await;
                    headers.extend(given.map_err(|error| ("there are no credentials for this caller", error))?);
                }
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(1024)
                    // Another session has none of the subscriptions: it needs another connection.
                    .reinit_on_expired_session(false)
                    .max_sse_event_size(self.max_message_bytes)
                    .max_json_response_size(self.max_message_bytes);
                config.custom_headers = combined(&headers);
                // Only the connection that all callers share reads lists and subscribes.
                let listener = (!has_single_principal).then(|| Arc::clone(&self.events) as Arc<dyn Listener>);
                let http = HttpClient { client: client.clone(), listener };
                let transport = StreamableHttpClientTransport::with_client(http, config);
                match Connection::open(
                    transport,
                    &self.events,
                    has_single_principal,
                    self.lifecycle.clone(),
                    self.timeout,
                )
                .await
                {
                    Err(error) if is_only_sse(client.get(url).headers(headers)).await => Err((ONLY_SSE, error)),
                    opened => opened.map_err(failed),
                }
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
    pub(crate) fn drop_connection(&self, identity: Option<&Identity>, failed: &Arc<Connection>) {
        let Ok(slot) = self.slot(identity) else { return };
        let mut open = lock(&slot.open);
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, failed)) {
            *open = None;
            self.events.changed();
        }
    }

    /// Sends the request of a call, once more if the connection was closed before, or the upstream has rejected the request
    /// unread or because of its headers.
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
            let began = Instant::now();
            let (error, may_repeat) = match connection.call(ctx, &self.prefix, &request).await {
                Ok(result) => return Ok(result),
                Err(CallError::Fault(fault)) => return Err(Failure::Fault(fault)),
                Err(CallError::Service(ServiceError::McpError(error))) => {
                    let is_mismatch = error.code == ErrorCode::HEADER_MISMATCH && !is_repeated;
                    if is_mismatch && self.renew_header_arguments(&connection, began).await {
                        is_repeated = true;
                        continue;
                    }
                    return Err(Failure::Fault(match required_pages(&error, &self.prefix, &connection.pages) {
                        Some(pages) => ctx.url_elicitation_required(pages).await,
                        None => self.fault(error),
                    }));
                }
                Err(CallError::NotSent) => (ServiceError::TransportClosed, true),
                Err(CallError::Service(error)) => {
                    // The session or the credentials of a caller may have expired. A rejected request has no effect.
                    let is_rejected = is_expired(&error) || error.is_authorization_required() && self.has_credentials();
                    (error, is_rejected)
                }
            };
            if may_repeat && !is_repeated {
                self.drop_connection(identity, &connection);
                is_repeated = true;
                continue;
            }
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
            if connection.is_closed() || error.is_authorization_required() || is_expired(&error) {
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
            let required = data.as_ref().and_then(|data| data.get("requiredCapabilities"));
            let is_valid = |required: &&Value| required.is_object() && required.to_string().len() <= MAX_ERROR_LENGTH;
            return match required.filter(is_valid) {
                Some(required) => Fault::MissingCapability { required: required.clone() },
                None => Fault::internal(self.prefix.message("the upstream requires capabilities")),
            };
        }
        // From this server, codes that the protocol reserves would tell the client to use another version or session, or to
        // visit pages, and most of them have no meaning yet. The pages of an upstream that are valid do not get here.
        if RESERVED_CODES.contains(&code.0) {
            return Fault::internal(self.prefix.message(truncate(&message)));
        }
        // The code of sessions, and the code of stateless revisions.
        if matches!(code, ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_PARAMS)
            && let Some(uri) = data.as_ref().and_then(|data| data["uri"].as_str())
        {
            return Fault::resource_not_found(self.prefix.uri(uri));
        }
        if code == ErrorCode::RESOURCE_NOT_FOUND {
            return Fault::InvalidParams(self.prefix.message(truncate(&message)));
        }
        let mut data = data.filter(|data: &Value| data.to_string().len() <= MAX_ERROR_LENGTH);
        data.iter_mut().for_each(|data| make_printable(data, true));
        Fault::Custom { code: code.0, message: printable(truncate(&message)), data }
    }
}

/// Returns the valid pages that the user must visit before the upstream processes a request, except for those beyond the maximum.
/// Returns `None` for any other error, and if no page is valid.
fn required_pages(error: &ErrorData, prefix: &Prefix, tracked: &Pages) -> Option<Vec<UrlElicitation>> {
    let data = error.data.as_ref().filter(|_| error.code == ErrorCode(URL_ELICITATION_REQUIRED))?;
    let pages = data["elicitations"].as_array()?.iter().enumerate().filter_map(|(number, page)| {
        let (url, message) = (page["url"].as_str()?, page["message"].as_str()?);
        let is_valid = page["mode"] == "url" && url.len().max(message.len()) <= MAX_ERROR_LENGTH;
        is_valid.then(|| {
            // The name is the same in every round, so that the next round finds the answer.
            let name = format!("{}-page-{number}", prefix.as_str());
            tracked.add(UrlElicitation::new(name, url, prefix.message(message)), page["elicitationId"].as_str())
        })
    });
    Some(pages.take(MAX_REQUIRED_URLS).collect()).filter(|pages: &Vec<_>| !pages.is_empty())
}

/// Returns whether the upstream has rejected a request since it no longer knows the session.
pub(crate) fn is_expired(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(error.error.downcast_ref(), Some(StreamableHttpError::<reqwest::Error>::SessionExpired))
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
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = builder.pool_idle_timeout(IDLE_TIMEOUT).build();
    client.map_err(|error| Error::new(format!("the HTTP client cannot be created: {error}")))
}

/// Combines the values of each header (RFC 9110, section 5.3; RFC 6265, section 5.4 for cookies): `rmcp` sends one value
/// for each name.
fn combined(headers: &HeaderMap) -> HashMap<HeaderName, HeaderValue> {
    let combine = |name: &HeaderName| {
        let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        let separator: &[u8] = if *name == http::header::COOKIE { b"; " } else { b", " };
        let mut value = HeaderValue::from_bytes(&values.join(separator)).ok()?;
        value.set_sensitive(true);
        Some((name.clone(), value))
    };
    headers.keys().filter_map(combine).collect()
}

/// Returns whether a server begins the stream of a GET request as HTTP+SSE does.
async fn is_only_sse(request: reqwest::RequestBuilder) -> bool {
    let first = async {
        let mut response = request.header(http::header::ACCEPT, "text/event-stream").send().await.ok()?;
        response.chunk().await.ok()?
    };
    let first = timeout(Duration::from_secs(1), first).await;
    matches!(first, Ok(Some(first)) if first.starts_with(b"event: endpoint"))
}

fn truncate(text: &str) -> &str {
    match text.char_indices().find(|(index, letter)| index + letter.len_utf8() > MAX_ERROR_LENGTH) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::{error, fmt, io};

    use mcp_runtime::Server;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const URL: &str = "https://ada:secret@example.com/mcp?key=secret";

    fn upstream() -> Arc<Upstream> {
        let client = http_client().unwrap();
        let target = Target::Http { url: URL.to_owned(), client, headers: HeaderMap::new(), credentials: None };
        let handle = Server::empty("gateway", "1.0.0").handle();
        Upstream::new(
            Prefix::new("up").unwrap(),
            target,
            false,
            ClientLifecycleMode::Initialize,
            Duration::ZERO,
            0,
            handle,
        )
        .0
    }

    /// An error with a cause.
    #[derive(Debug)]
    struct Failed(io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("failed")
        }
    }

    impl error::Error for Failed {
        fn source(&self) -> Option<&(dyn error::Error + 'static)> {
            Some(&self.0)
        }
    }

    /// The HTTP client names the URL without its user.
    #[test]
    fn errors_are_described_without_the_url() {
        for named in [URL, "https://example.com/mcp?key=secret"] {
            let error = Failed(io::Error::other(format!("no response from {named}")));
            assert_eq!(upstream().describe(&error), "failed: no response from …");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_subscription_causes_another_one() {
        let upstream = upstream();
        upstream.events.unsubscribed();
        timeout(Duration::from_secs(1), upstream.events.resubscribe.notified()).await.unwrap();
    }

    #[tokio::test]
    async fn connections_that_the_upstream_may_close_at_any_moment_are_not_used() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, url) = (http_client().unwrap(), format!("http://{}", listener.local_addr().unwrap()));
        let serve = async {
            let mut streams = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
                streams.push(stream);
            }
            std::future::pending().await
        };
        let call = async {
            client.get(&url).send().await.unwrap().bytes().await.unwrap();
            // The connection returns to the pool after the response.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(5)).await;
            tokio::time::resume();
            client.get(&url).timeout(Duration::from_secs(10)).send().await.expect("a new connection");
        };
        tokio::select! {
            () = call => {}
            () = serve => {}
        }
    }

    #[test]
    fn only_capabilities_that_are_an_object_pass() {
        for (data, expected) in [
            (Some(json!({"requiredCapabilities": {"roots": {}}})), Some(json!({"roots": {}}))),
            (Some(json!({"requiredCapabilities": null})), None),
            (Some(json!({"requiredCapabilities": ["roots"]})), None),
            (Some(json!({"requiredCapabilities": 7})), None),
            (Some(json!({})), None),
            (Some(json!("text")), None),
            (None, None),
        ] {
            let error = ErrorData::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "missing", data.clone());
            let expected = match expected {
                Some(required) => Fault::MissingCapability { required },
                None => Fault::internal("up: the upstream requires capabilities"),
            };
            assert_eq!(upstream().fault(error), expected, "{data:?}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let longest = "x".repeat(MAX_ERROR_LENGTH);
        let shorter = &longest[1..];
        for (text, expected) in [
            ("text".to_owned(), "text"),
            (longest.clone(), &*longest),
            (format!("{longest}x"), &*longest),
            (format!("{shorter}\u{e9}"), shorter),
        ] {
            assert_eq!(truncate(&text), expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn details_of_errors_are_limited() {
        for (length, is_short) in [(MAX_ERROR_LENGTH, true), (MAX_ERROR_LENGTH + 1, false)] {
            let details = json!({"a": "x".repeat(length - json!({"a": ""}).to_string().len())});
            let fault = upstream().fault(ErrorData::new(ErrorCode(-32000), "refused", Some(details.clone())));
            assert!(matches!(fault, Fault::Custom { data, .. } if data.is_some() == is_short), "{length}");
            let code = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
            let data = json!({ "requiredCapabilities": details });
            let fault = upstream().fault(ErrorData::new(code, "missing", Some(data)));
            assert_eq!(matches!(fault, Fault::MissingCapability { .. }), is_short, "{length}");
        }
    }
}
