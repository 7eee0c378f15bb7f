#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc)]

mod attempts;
mod child;
mod connection;
mod convert;
mod entries;
mod follow;
mod http_client;
mod pages;
mod questions;
mod subscribed;
mod subscriptions;
mod tasks;
mod transport;
mod upstream;

use std::{
    error,
    ffi::OsStr,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_runtime::{Handle, Server, auth::Identity, function::Entry};
use rmcp::service::ClientLifecycleMode;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use child::Program;
use connection::newest;
use convert::Prefix;
use upstream::Target;

/// The shortest and the longest pause between an announcement of changed lists and reading them. It grows by a quarter while changes
/// follow each other, since each one is announced to the clients of the server.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The time after which an upstream that was unavailable is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Another MCP server, whose tools, resources and prompts a [`Server`] serves as its own.
///
/// ```no_run
/// use mcp_proxy::Upstream;
/// use mcp_runtime::{Server, server};
///
/// #[server]
/// async fn main(server: Server) -> Result<Server, mcp_proxy::Error> {
///     let git = Upstream::command("uvx", ["mcp-server-git"]);
///     let tracker = Upstream::http("https://tracker.example.com/mcp").header("authorization", "Bearer …");
///     tracker.add_to(git.add_to(server, "git").await?, "tracker").await
/// }
/// ```
#[must_use]
pub struct Upstream {
    target: Target,
    is_per_caller: bool,
    lifecycle: ClientLifecycleMode,
    timeout: Duration,
    max_message_bytes: usize,
    problems: Vec<String>,
}

impl Upstream {
    fn new(target: Target, problems: Vec<String>) -> Self {
        let (timeout, max_message_bytes) = (Duration::from_secs(10), 16 * 1024 * 1024);
        Self { target, is_per_caller: false, lifecycle: newest(), timeout, max_message_bytes, problems }
    }

    /// Creates an upstream that is reached over HTTP. Redirects are not followed.
    pub fn http(url: impl Into<String>) -> Self {
        let (mut url, mut problems) = (url.into(), Vec::new());
        let uri = url.parse::<http::Uri>();
        if !uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()) {
            problems.push("the URL is invalid, expected `https://…` or `http://…`".to_owned());
        }
        // Errors contain the URL in this form.
        if let Ok(normalized) = reqwest::Url::parse(&url) {
            url = normalized.into();
        }
        let client = upstream::http_client().map_err(|error| problems.push(error.to_string())).unwrap_or_default();
        Self::new(Target::Http { url, client, headers: HeaderMap::new(), credentials: None }, problems)
    }

    /// Creates an upstream that this process starts, and that is reached over stdin and stdout. No shell is involved.
    ///
    /// The program receives `PATH`, `HOME` and the variables for the language, the user and temporary files, and the variables
    /// of [`env`](Self::env), such as `HTTPS_PROXY` or `SSL_CERT_FILE` for a launcher that downloads the program. Its stderr is the
    /// stderr of this process. It is started again when it has ended.
    pub fn command(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let program = Program { path: program.as_ref().to_owned(), arguments, environment: Vec::new() };
        Self::new(Target::Program(program), Vec::new())
    }

    /// Adds a variable to the environment of the [command](Self::command).
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        match &mut self.target {
            Target::Program(Program { environment, .. }) => {
                environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
            }
            Target::Http { .. } => self.problems.push("only commands have an environment".to_owned()),
        }
        self
    }

    /// Adds a header to every request over HTTP, such as `authorization` with the credentials of this server. Several values
    /// of a header are sent as one, separated by commas, or by semicolons if they are cookies.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        match (&mut self.target, name.parse::<HeaderName>(), value.as_ref().parse::<HeaderValue>()) {
            (Target::Http { headers, .. }, Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.append(name, value);
            }
            (Target::Program(_), ..) => self.problems.push("only upstreams over HTTP have headers".to_owned()),
            _ => self.problems.push(format!("the header {name:?} is invalid")),
        }
        self
    }

    /// Sets a function that returns headers with the credentials of a caller, such as a token that was exchanged for the
    /// identity. Each principal then has a connection of its own, as with [`per_caller`](Self::per_caller), and another one
    /// when its scopes, claims or expiry change. The function is called when a connection is opened, also again after the
    /// upstream has rejected the credentials; without an identity, to read the lists and for anonymous callers. If it fails,
    /// so do the calls of this caller.
    ///
    /// The token of the caller itself is not available, since it was issued for this server. The authorization server of
    /// `mcp-runtime-auth` exchanges the token that a user has at its provider (RFC 8693). The result is kept as long as the
    /// connection, and exchanged again when the upstream rejects it, because it has expired:
    ///
    /// ```no_run
    /// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
    /// use mcp_auth::AuthorizationServer;
    /// use mcp_proxy::Upstream;
    ///
    /// fn tracker(authorization: &AuthorizationServer) -> Upstream {
    ///     let tokens = authorization.upstream_tokens();
    ///     Upstream::http("https://tracker.example.com/mcp").headers_for(move |identity| {
    ///         let tokens = tokens.clone();
    ///         async move {
    ///             let mut headers = HeaderMap::new();
    ///             if let Some(user) = identity {
    ///                 let token = tokens.exchange_for(&user, "https://tracker.example.com/mcp", ["tickets:read"]).await?;
    ///                 headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}"))?);
    ///             }
    ///             Ok::<_, Box<dyn std::error::Error + Send + Sync>>(headers)
    ///         }
    ///     })
    /// }
    /// ```
    pub fn headers_for<F, E>(mut self, credentials: impl Fn(Option<Identity>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<HeaderMap, E>> + Send + 'static,
        E: Into<Box<dyn error::Error + Send + Sync>>,
    {
        match &mut self.target {
            Target::Http { credentials: target, .. } => {
                *target = Some(Arc::new(move |identity| {
                    let headers = credentials(identity);
                    Box::pin(async move { headers.await.map_err(Into::into) })
                }));
            }
            Target::Program(_) => self.problems.push("only upstreams over HTTP have headers".to_owned()),
        }
        self.per_caller()
    }

    /// Gives each principal a connection of its own, at most 64 at the same time: for each of them, the
    /// [command](Self::command) runs, or a session is open. The state of the upstream is then not shared, and its log messages and
    /// questions reach their caller even if they do not name their call. The lists are read on one more connection, which
    /// callers without an [`Identity`] share.
    pub fn per_caller(mut self) -> Self {
        self.is_per_caller = true;
        self
    }

    /// Opens a session of 2025-11-25 or an earlier revision, although the upstream may support a revision without sessions. Some
    /// servers, such as those of FastMCP 4, ask questions only in sessions.
    pub fn with_sessions(mut self) -> Self {
        self.lifecycle = ClientLifecycleMode::Initialize;
        self
    }

    /// Sets how long connecting, reading the lists, and subscribing to their changes may take. The default is 10 seconds each.
    /// After attempts to connect that have failed, the next ones may take up to a minute longer. The timeouts of calls are
    /// those of the server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a message of the upstream. The default is 16 MiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Connects, and adds the entries of the upstream to a server. Their names begin with `prefix` and `_`, their URIs with
    /// `prefix` and `+`, and the URIs of pages with `ui://`, `prefix` and `+`. An empty prefix leaves all of them as they are, for a
    /// server in front of a single upstream, and a server without [`instructions`](Server::instructions) then takes over those that the upstream has now.
    ///
    /// If the upstream is unavailable, the server starts without its entries, and adds them later.
    ///
    /// # Errors
    ///
    /// Fails if the URL, a header or the prefix is invalid, and if the upstream speaks only HTTP+SSE of 2024-11-05. A prefix
    /// consists of at most 32 lower-case letters, digits, `-` and `.`, and begins with a letter.
    pub async fn add_to(mut self, server: Server, prefix: &str) -> Result<Server, Error> {
        let valid = Prefix::new(prefix);
        if valid.is_none() {
            self.problems.push(format!("the prefix {prefix:?} is invalid, expected a-z, 0-9, `-` and `.`"));
        }
        let (Some(prefix), []) = (valid, &*self.problems) else {
            return Err(Error::new(self.problems.join("\n")));
        };
        let Self { target, is_per_caller, lifecycle, timeout: limit, max_message_bytes, .. } = self;
        let handle = server.handle();
        let (upstream, changes) =
            upstream::Upstream::new(prefix, target, is_per_caller, lifecycle, limit, max_message_bytes, handle.clone());
        let lists = read(&upstream).await;
        if lists.is_none()
            && let Some(mistake) = upstream.mistake().await
        {
            return Err(Error::new(mistake));
        }
        let was_complete = lists.as_ref().is_some_and(|lists| lists.is_complete);
        let digest = lists.as_ref().map(|lists| lists.digest);
        let (entries, instructions) = lists.map(|lists| (lists.entries, lists.instructions)).unwrap_or_default();
        let server = match instructions {
            Some(instructions) if upstream.prefix.as_str().is_empty() => server.default_instructions(instructions),
            _ => server,
        };
        let refreshing = Refresh {
            upstream: Arc::clone(&upstream),
            tag: entries::own_tag(&upstream),
            had_entries: false,
            digest,
            was_complete,
            retries: !was_complete,
            last_announced: None,
            pause: PAUSES.0,
            handle: handle.clone(),
        };
        tokio::spawn(async move {
            tokio::select! {
                () = handle.closed() => {}
                () = refreshing.run(changes) => {}
                () = upstream.keep_subscribed() => {}
            }
        });
        Ok(entries.into_iter().fold(server, Server::with_entry))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Upstream");
        match &self.target {
            Target::Http { .. } => debug.field("transport", &"http"),
            Target::Program(program) => debug.field("program", &program.path),
        };
        debug.finish_non_exhaustive()
    }
}

/// Reads the lists of an upstream. Returns `None` if it is unavailable.
async fn read(upstream: &Arc<upstream::Upstream>) -> Option<entries::Lists> {
    let connection = upstream.connection(None).await.ok()?;
    let lists = timeout(upstream.timeout, entries::read(upstream, &connection)).await;
    if lists.is_err() {
        tracing::warn!(upstream = upstream.prefix.as_str(), "the lists of an upstream cannot be read in time");
    }
    lists.ok()
}

/// Keeps the entries of an upstream current.
struct Refresh {
    upstream: Arc<upstream::Upstream>,
    tag: String,
    /// Whether the server has had entries of the upstream. It leaves out invalid ones.
    had_entries: bool,
    /// The digest of the current entries.
    digest: Option<u64>,
    /// Whether the current entries are complete: incomplete lists do not replace them.
    was_complete: bool,
    /// Whether the lists are read again without an announcement.
    retries: bool,
    /// When the lists were last read because of an announcement.
    last_announced: Option<Instant>,
    pause: Duration,
    handle: Handle,
}

impl Refresh {
    /// Returns the pause before the lists are read.
    fn next_pause(&mut self) -> Duration {
        let (first, longest) = PAUSES;
        let is_repeated = self.last_announced.is_some_and(|last| last.elapsed() < self.pause + longest / 10);
        self.pause = if is_repeated { (self.pause * 5 / 4).min(longest) } else { first };
        self.pause
    }

    /// Returns whether the server has entries of the upstream.
    fn has_entries(&self) -> bool {
        let found = AtomicBool::new(false);
        let look = |entry: &mcp_runtime::function::EntryInfo<'_>| {
            found.fetch_or(entry.has_tag(&self.tag), Ordering::Relaxed);
            false
        };
        let _ = self.handle.replace_entries(look, [] as [Entry; 0]);
        found.into_inner()
    }

    /// Returns whether the program has removed the entries that the server had before.
    fn were_entries_removed(&mut self) -> bool {
        let has_entries = self.has_entries();
        mem::replace(&mut self.had_entries, has_entries) && !has_entries
    }

    /// Reads the lists when they change, until the program removes the entries from the server.
    async fn run(mut self, mut changes: mpsc::Receiver<()>) {
        loop {
            let limit = if self.retries { RETRY } else { Duration::MAX };
            let announced = timeout(limit, changes.recv()).await;
            if let Ok(None) = announced {
                return;
            }
            sleep(if announced.is_ok() { self.next_pause() } else { PAUSES.0 }).await;
            // One reading is enough for all announcements before it.
            let _ = changes.try_recv();
            if announced.is_ok() {
                self.last_announced = Some(Instant::now());
            }
            if self.were_entries_removed() {
                return;
            }
            let lists = read(&self.upstream).await;
            if self.were_entries_removed() {
                return;
            }
            let Some(lists) = lists else {
                self.retries = true;
                continue;
            };
            self.retries = !lists.is_complete;
            if self.was_complete && !lists.is_complete {
                continue;
            }
            if self.digest == Some(lists.digest) {
                self.was_complete = lists.is_complete;
                continue;
            }
            match self.handle.replace_entries(|entry| entry.has_tag(&self.tag), lists.entries) {
                Ok(()) => {
                    self.digest = Some(lists.digest);
                    self.was_complete = lists.is_complete;
                    self.had_entries = self.has_entries();
                }
                Err(error) => {
                    tracing::warn!(upstream = self.upstream.prefix.as_str(), %error, "the entries of an upstream cannot be replaced");
                    self.retries = true;
                }
            }
        }
    }
}

/// An invalid description of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause grows while announcements keep arriving, and resets after a quiet period.
    #[tokio::test(start_paused = true)]
    async fn the_pause_before_lists_are_read_again_has_a_bound() {
        let client = upstream::http_client().unwrap();
        let target = Target::Http { url: String::new(), client, headers: HeaderMap::new(), credentials: None };
        let handle = Server::empty("gateway", "1.0.0").handle();
        let prefix = Prefix::new("up").unwrap();
        let (upstream, _changes) =
            upstream::Upstream::new(prefix, target, false, newest(), Duration::ZERO, 0, handle.clone());
        let mut refresh = Refresh {
            upstream,
            tag: String::new(),
            had_entries: false,
            digest: None,
            was_complete: true,
            retries: false,
            last_announced: None,
            pause: PAUSES.0,
            handle,
        };
        let mut next = async || {
            let pause = refresh.next_pause();
            tokio::time::advance(pause).await;
            refresh.last_announced = Some(Instant::now());
            pause
        };
        assert_eq!(next().await, PAUSES.0);
        assert_eq!(next().await, PAUSES.0 * 5 / 4);
        for _ in 0..100 {
            assert!(next().await <= PAUSES.1);
        }
        assert_eq!(next().await, PAUSES.1);
        tokio::time::advance(PAUSES.1 + PAUSES.1 / 10).await;
        assert_eq!(next().await, PAUSES.0);
    }

    /// The HTTP client logs requests with their headers.
    #[test]
    fn the_values_of_headers_are_not_printed() {
        let upstream = Upstream::http("https://example.com/mcp").header("authorization", "Bearer secret");
        let Target::Http { headers, .. } = upstream.target else { panic!("the target is a URL") };
        assert_eq!(format!("{headers:?}"), r#"{"authorization": Sensitive}"#);
    }

    /// URLs, arguments and variables may contain secrets.
    #[test]
    fn an_upstream_is_printed_without_what_may_be_secret() {
        for (upstream, expected) in [
            (Upstream::http("https://example.com/mcp?key=secret"), r#"Upstream { transport: "http", .. }"#),
            (
                Upstream::command("server", ["--key", "secret"]).env("KEY", "secret"),
                r#"Upstream { program: "server", .. }"#,
            ),
        ] {
            assert_eq!(format!("{upstream:?}"), expected);
        }
    }
}
