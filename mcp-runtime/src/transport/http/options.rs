use std::{net::SocketAddr, time::Duration};

use tokio::sync::Semaphore;

/// How a server is offered over HTTP. The default is safe on a developer's machine: only programs and pages on the same
/// machine can reach it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    pub(crate) path: String,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) max_body_bytes: usize,
    max_body_bytes_in_all: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) max_connections: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) max_sessions: usize,
    pub(crate) session_idle: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) stream_after: Duration,
    pub(crate) health: Option<(String, String)>,
    pub(crate) legacy_sse: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 4 << 20,
            max_body_bytes_in_all: 256 << 20,
            body_timeout: Duration::from_secs(30),
            max_in_flight: 4096,
            max_connections: 10_240,
            header_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(120),
            max_sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
            keep_alive: Duration::from_secs(15),
            stream_after: Duration::from_secs(2),
            health: Some(("/healthz".to_owned(), "/readyz".to_owned())),
            legacy_sse: false,
        }
    }
}

impl HttpOptions {
    /// Sets the path of the endpoint; `/mcp` unless set. A mounted service is wherever it is mounted.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Allows requests to this host, as clients name it in `Host`: `mcp.example.com`, or with a port, `mcp.example.com:8443`.
    ///
    /// Without any, only loopback names are allowed. An allowed host is an allowed origin as well.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.allowed_hosts.push(host.into());
        self
    }

    /// Allows pages of this origin, as browsers name it in `Origin`: `https://app.example.com`.
    ///
    /// Pages on the loopback interface are allowed as long as no host is.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.allowed_origins.push(origin.into());
        self
    }

    /// Sets the most bytes of a request's body; 4 MiB unless set.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the most bytes of all bodies that are being read, over all clients; 256 MiB unless set, and always as much as four of the
    /// longest ones. A body that would be too much is refused with 503; a short one never is, so that answers and cancellations get
    /// through.
    #[must_use]
    pub fn max_body_bytes_in_all(mut self, bytes: usize) -> Self {
        self.max_body_bytes_in_all = bytes;
        self
    }

    /// Sets how long a body may take to arrive; 30 seconds unless set.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the most calls in work at once, over all clients; 4096 unless set. More are refused with 503. A call counts until it has
    /// an answer, read or not; lists, notifications and the client's own answers do not count. The call of a synchronous function that is
    /// not `blocking` does not count either, since it is over before its thread does anything else, but it is refused like the others.
    #[must_use]
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls.clamp(1, 1 << 20);
        self
    }

    /// Sets the most connections at once; 10,240 unless set. One more is answered with 503 and closed, so that its client knows and a
    /// proxy asks another server, where one left waiting would look like a server that hangs.
    ///
    /// The system must allow the process as many open files. A mounted service leaves connections to what it is mounted into.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.clamp(1, 1 << 20);
        self
    }

    /// Sets how long a connection may take for the headers of its next request, idle or slow; 75 seconds unless set. That is longer
    /// than most proxies keep a connection that they do not use, so that none of them sends a request to one that is just closed.
    ///
    /// A mounted service leaves connections to what it is mounted into.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Sets how long a client may take nothing of what waits for it before its connection ends; 2 minutes unless set. A session, and
    /// what its client can resume, outlives the connection.
    ///
    /// A mounted service leaves connections to what it is mounted into.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets the most sessions at once; 10,000 unless set. For one more, those that were idle longest are ended.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions.max(1);
        self
    }

    /// Sets how long a session may be idle; 30 minutes unless set. A running call or an open stream is not idle.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.session_idle = idle;
        self
    }

    /// Sets the time between the comments that keep a quiet stream open; 15 seconds unless set.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets how long an answer is waited for before its response becomes a stream, which can be kept alive and, in a session,
    /// resumed; 2 seconds unless set.
    #[must_use]
    pub fn stream_after(mut self, wait: Duration) -> Self {
        self.stream_after = wait;
        self
    }

    /// Sets the paths that say whether the process is alive and ready, `/healthz` and `/readyz` unless set; none with `None`.
    /// A mounted service has none.
    #[must_use]
    pub fn health(mut self, paths: Option<(&str, &str)>) -> Self {
        self.health = paths.map(|(alive, ready)| (alive.to_owned(), ready.to_owned()));
        self
    }

    /// Offers the transport of 2024-11-05 as well, with its streams at `/sse` and its messages at `/message`.
    /// A mounted service does not have it.
    #[must_use]
    pub fn legacy_sse(mut self, offer: bool) -> Self {
        self.legacy_sse = offer;
        self
    }

    /// The memory for bodies, in bytes.
    pub(crate) fn body_memory(&self) -> usize {
        let least = self.max_body_bytes.saturating_mul(4);
        self.max_body_bytes_in_all.max(least).min(Semaphore::MAX_PERMITS)
    }

    /// Says what is missing for an address that others can reach.
    pub(crate) fn refuse(&self, address: SocketAddr) -> Option<String> {
        (!address.ip().is_loopback() && self.allowed_hosts.is_empty()).then(|| {
            format!(
                "{address} can be reached from elsewhere, but no host is allowed: name what clients call the server, \
                 with `--allow-host mcp.example.com` or `HttpOptions::allow_host(\"mcp.example.com\")`"
            )
        })
    }
}
