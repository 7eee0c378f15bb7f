//! The options of an endpoint and of its listener, and the address of the listener.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use http::{request::Parts, uri::Authority};

use super::{peers::Share, proxies::TrustedProxies};
use crate::{
    engine::{MAX_PERIOD, MIN_PERIOD},
    stdx::{debug, setters},
};

/// Options of an MCP endpoint over HTTP, served by [`http::serve`](crate::http::serve) or mounted into another
/// application. The listener has [options of its own](crate::http::ListenerOptions).
///
/// The defaults are safe on a developer's machine: only programs and web pages on the same machine can reach the
/// server.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::HttpOptions;
///
/// let options = HttpOptions::default()
///     .allow_host("mcp.example.com")
///     .allow_origin("https://app.example.com")
///     .max_body_bytes(1 << 20)
///     .session_idle(Duration::from_secs(600));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    pub(crate) path: String,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_body_bytes: usize,
    max_total_body_bytes: usize,
    pub(super) body_timeout: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_unread_response_bytes: usize,
    pub(crate) max_sessions: usize,
    pub(crate) max_peer_share: Share,
    pub(crate) session_idle: Duration,
    pub(super) keep_alive: Duration,
    pub(super) stream_after: Duration,
    pub(super) expired_stream_grace: Option<Duration>,
    pub(super) peer_addr: Option<AddressFn>,
    pub(super) trusted_proxies: Result<TrustedProxies, String>,
}

/// The author's function that returns the address of a request's sender.
#[derive(Clone)]
pub(super) struct AddressFn(pub(super) Arc<AddressOf>);

type AddressOf = dyn Fn(&Parts) -> Option<SocketAddr> + Send + Sync;

debug!(AddressFn, self);

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 4 << 20,
            max_total_body_bytes: 256 << 20,
            body_timeout: Duration::from_secs(30),
            max_in_flight: 4096,
            max_unread_response_bytes: 256 << 20,
            max_sessions: 10_000,
            max_peer_share: Share::new(0.75),
            session_idle: Duration::from_secs(30 * 60),
            keep_alive: Duration::from_secs(15),
            stream_after: Duration::from_secs(2),
            expired_stream_grace: Some(Duration::from_secs(5 * 60)),
            peer_addr: None,
            trusted_proxies: Ok(TrustedProxies::default()),
        }
    }
}

impl HttpOptions {
    setters! {
        /// Sets the path of the endpoint. The default is `/mcp`.
        ///
        /// The application into which a service is mounted decides to which paths it responds. There, set the path at
        /// which the service is mounted: it is part of the URL of the resource, which the service tells local clients
        /// that need an access token.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().path("/api/mcp");
        /// ```
        pub fn path(self, path: impl Into<String>) { self.path = path.into() }

        /// Allows requests to this host, as it appears in the `Host` header: `mcp.example.com`, or with a port,
        /// `mcp.example.com:8443`.
        ///
        /// Loopback names are allowed unless a host is allowed explicitly. An allowed host is also an allowed origin.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().allow_host("mcp.example.com").allow_host("mcp.example.com:8443");
        /// ```
        pub fn allow_host(self, host: impl Into<String>) { self.allowed_hosts.push(host.into()) }

        /// Allows web pages of this origin, as it appears in the `Origin` header: `https://app.example.com`.
        ///
        /// Pages on the loopback interface are allowed unless a host is allowed explicitly.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().allow_origin("https://app.example.com");
        /// ```
        pub fn allow_origin(self, origin: impl Into<String>) { self.allowed_origins.push(origin.into()) }

        /// Sets the maximum size of a request body in bytes. The default is 4 MiB.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().max_body_bytes(16 << 20);
        /// ```
        pub fn max_body_bytes(self, bytes: usize) { self.max_body_bytes = bytes }

        /// Sets the maximum total size, in bytes, of all request bodies that are being received, or whose calls are in
        /// flight. The default is 256 MiB, and the minimum is four bodies of the [maximum size](Self::max_body_bytes).
        ///
        /// A body that exceeds it is rejected with status 503. Short bodies are always accepted, so that responses and
        /// cancellations get through.
        pub fn max_total_body_bytes(self, bytes: usize) { self.max_total_body_bytes = bytes }

        /// Sets the time within which a body must be received. The default is 30 seconds.
        pub fn body_timeout(self, timeout: Duration) { self.body_timeout = timeout }

        /// Sets the maximum number of calls in flight, over all clients. The default is 4096.
        ///
        /// Calls beyond the limit are rejected with status 503. A call is in flight until its response is ready,
        /// whether or not the client reads it. Lists, notifications and responses of the client do not count. Calls of
        /// synchronous functions that are not `blocking` do not count either, since they complete at once, but they are
        /// rejected like other calls when the limit is reached.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// // A single peer may use half of them.
        /// let options = HttpOptions::default().max_in_flight(256).max_peer_share(0.5);
        /// ```
        pub fn max_in_flight(self, calls: usize) { self.max_in_flight = calls.clamp(1, 1 << 20) }

        /// Sets the maximum total size, in bytes, of responses that their clients have not read. The default is 256
        /// MiB.
        ///
        /// While less than a sixteenth of it is free, new calls are rejected with status 503. A response that does not
        /// fit is replaced by an error with status 503, although its function has already run, so a response larger
        /// than the limit is never sent. Responses of up to 16 KiB do not count. The unread output of event streams has
        /// a separate limit of the same size, which is checked only when a call begins.
        pub fn max_unread_response_bytes(self, bytes: usize) { self.max_unread_response_bytes = bytes }

        /// Sets the maximum number of sessions. The default is 10,000.
        ///
        /// A new session beyond the limit evicts idle sessions, about 1/64 of all, each from the peer with the most
        /// sessions; a new session beyond the [peer's share](Self::max_peer_share) evicts idle sessions of that peer.
        /// Sessions that were never used after `initialize` are evicted first, then the sessions that have been idle
        /// longest. If none is idle, the request is rejected with status 503.
        ///
        /// With a [shared backend](crate::Server::backend), these are the sessions that this process uses, and eviction
        /// does not end them. A peer may open as many sessions at all processes together as its share of this limit
        /// allows; a new session beyond that ends a session that no process is using, or is rejected with status 503.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().max_sessions(500).session_idle(Duration::from_secs(300));
        /// ```
        pub fn max_sessions(self, sessions: usize) { self.max_sessions = sessions.max(1) }

        /// Sets the share of each limit that a single peer may use: a fraction of the part that other peers leave free.
        /// The default is 0.75.
        ///
        /// A peer is a [`Principal`](crate::auth::Principal) or, without one, a network address: an IPv4 address or the
        /// first 64 bits of an IPv6 address. At a Unix socket, it is the user whose process has connected. Clients of a
        /// mounted service whose address is unknown are one peer (see [`peer_addr`](Self::peer_addr)). The share
        /// applies to connections, sessions, calls in flight, `subscriptions/listen` requests, threads for blocking
        /// functions, and the memory of request bodies and unread responses.
        ///
        /// With the default, a single peer can use up to 3/4 of each limit, and the second up to 3/4 of the rest, so
        /// that there is always room for other peers. If all clients connect through one proxy and have no principals,
        /// name the proxy with [`trusted_proxies`](Self::trusted_proxies), or set the share to 1.0, which disables it.
        /// Connections belong to the proxy in either case.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// // All requests come from one gateway.
        /// let options = HttpOptions::default().max_peer_share(1.0);
        /// ```
        pub fn max_peer_share(self, fraction: f64) { self.max_peer_share = Share::new(fraction) }

        /// Sets the time after which an idle session expires. The default is 30 minutes. A session with a call in
        /// flight or an open stream is not idle.
        ///
        /// With a [shared backend](crate::Server::backend), a session expires when no process has used it for this
        /// time, or up to a third later.
        pub fn session_idle(self, idle: Duration) { self.session_idle = idle }

        /// Sets the interval of the comments that keep an idle stream open. The default is 15 seconds.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::HttpOptions;
        /// // A proxy closes connections that are silent for ten seconds.
        /// let options = HttpOptions::default().keep_alive(Duration::from_secs(5));
        /// ```
        pub fn keep_alive(self, interval: Duration) { self.keep_alive = interval.clamp(MIN_PERIOD, MAX_PERIOD) }

        /// Sets the time after which a pending response becomes an event stream, which is kept alive and, in a session,
        /// can be resumed. The default is 2 seconds.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().stream_after(Duration::from_millis(200));
        /// ```
        pub fn stream_after(self, wait: Duration) { self.stream_after = wait }

        /// Sets how long an event stream continues after the credentials of its request have expired. The default is 5
        /// minutes. `None` lets it continue as long as the client reads it.
        ///
        /// A call whose stream ends is cancelled in stateless revisions. In a session, it continues, and the client can
        /// resume the stream with new credentials.
        pub fn expired_stream_grace(self, grace: impl Into<Option<Duration>>) {
            self.expired_stream_grace = grace.into()
        }

        /// Sets the function that returns the address of a request's sender, which
        /// [`Context::peer_addr`](crate::Context::peer_addr) returns and by which limits per caller count callers
        /// without a principal. If it returns `None`, the address of the connection is used.
        ///
        /// A mounted service does not see the connection, so it needs this function to know the address. In axum, serve
        /// the application with `into_make_service_with_connect_info::<SocketAddr>()`, and read the extension
        /// `ConnectInfo`:
        ///
        /// ```
        /// # use std::net::SocketAddr;
        /// # use mcp_runtime::HttpOptions;
        /// # #[derive(Clone)]
        /// # struct ConnectInfo<T>(T);
        /// // use axum::extract::ConnectInfo;
        /// let options = HttpOptions::default()
        ///     .peer_addr(|request| request.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0));
        /// ```
        ///
        /// Behind a proxy that overwrites a header of its own with the address of its client, the function may read
        /// that header. For `Forwarded` and `X-Forwarded-For`, use [`trusted_proxies`](Self::trusted_proxies).
        pub fn peer_addr(self, address: impl Fn(&Parts) -> Option<SocketAddr> + Send + Sync + 'static) {
            self.peer_addr = Some(AddressFn(Arc::new(address)))
        }

        /// Sets the proxies in front of the server: a list of addresses and networks, separated by commas, with `unix`
        /// for the processes that connect to a Unix socket. The default is empty. Programs with [`main!`](crate::main)
        /// set it with `--trusted-proxies`.
        ///
        /// The sender of a request from such a proxy is the client that the proxy states in `Forwarded` or
        /// `X-Forwarded-For`. These headers are read from the right, up to the first address that is no trusted proxy,
        /// since a client can write anything to the left of it. If the last entry is malformed, or the two headers
        /// contradict each other, the proxy itself counts as the sender. Headers from any other address are ignored.
        /// The address of the connection is the one that [`peer_addr`](Self::peer_addr) returns, if it is set.
        ///
        /// [`into_http_service`](crate::BuiltServer::into_http_service) rejects an invalid list.
        ///
        /// ```
        /// # use mcp_runtime::HttpOptions;
        /// let options = HttpOptions::default().trusted_proxies("127.0.0.1, 10.0.0.0/8, fd00::/8");
        /// ```
        pub fn trusted_proxies(self, proxies: &str) { self.trusted_proxies = TrustedProxies::parse(proxies) }
    }

    /// Returns whether anything says from whom a proxy forwards requests.
    pub(crate) fn knows_clients_of_proxies(&self) -> bool {
        self.peer_addr.is_some() || self.trusted_proxies.as_ref().is_ok_and(|proxies| !proxies.is_empty())
    }

    /// Returns what is wrong with the options. Hosts and origins that no request can have would reject every request.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Err(problem) = &self.trusted_proxies {
            return Some(problem.clone());
        }
        let is_origin = |origin: &str| match origin.split_once("://") {
            Some((scheme, host)) => is_host(host) || scheme == "file" && host.is_empty(),
            None => origin == "null",
        };
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_host(host)) {
            return Some(format!(
                "the allowed host `{host}` is invalid\n\
                 help: write it as in the `Host` header, such as `mcp.example.com` or `mcp.example.com:8443`"
            ));
        }
        let origin = self.allowed_origins.iter().find(|origin| !is_origin(origin))?;
        Some(format!(
            "the allowed origin `{origin}` is invalid\n\
             help: write it as in the `Origin` header, such as `https://app.example.com`"
        ))
    }

    /// Returns the memory for all bodies, in bytes.
    pub(super) fn body_memory(&self) -> usize {
        self.max_total_body_bytes.max(self.max_body_bytes.saturating_mul(4))
    }

    /// Rejects an address that other machines can reach if no host is allowed.
    pub(super) fn check_address(&self, address: &HttpAddress) -> io::Result<()> {
        let is_public = address.socket_addr().is_some_and(|address| !address.ip().is_loopback());
        if !is_public || !self.allowed_hosts.is_empty() {
            return Ok(());
        }
        let why = format!(
            "other machines can reach {address}, but no host is allowed\n\
             help: allow the host name that clients use, with `--allow-host mcp.example.com` or \
             `HttpOptions::allow_host(\"mcp.example.com\")`"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// Returns whether a text is a host with an optional port.
fn is_host(text: &str) -> bool {
    !text.contains(['@', '*']) && text.parse::<Authority>().is_ok()
}

/// The maximum number of headers of a request.
pub(super) const MAX_HEADERS: usize = 100;

/// Options of a listener: its connections, the paths beside the endpoint, and its shutdown.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::http::ListenerOptions;
///
/// let options = ListenerOptions::default().max_connections(1000).drain_delay(Duration::from_secs(5));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListenerOptions {
    pub(super) max_connections: usize,
    pub(super) header_timeout: Duration,
    pub(super) max_head_bytes: usize,
    pub(super) write_timeout: Duration,
    pub(super) min_read_rate: usize,
    pub(super) liveness_path: Option<String>,
    pub(super) readiness_path: Option<String>,
    pub(super) drain_delay: Duration,
    pub(super) legacy_sse: bool,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            max_connections: 10_240,
            header_timeout: Duration::from_secs(75),
            max_head_bytes: 16 << 10,
            write_timeout: Duration::from_secs(120),
            min_read_rate: 1 << 10,
            liveness_path: Some("/healthz".to_owned()),
            readiness_path: Some("/readyz".to_owned()),
            drain_delay: Duration::ZERO,
            legacy_sse: false,
        }
    }
}

impl ListenerOptions {
    setters! {
        /// Sets the maximum number of connections. The default is 10,240.
        ///
        /// Connections beyond the limit receive a response with status 503 and are closed, so that a proxy can try
        /// another server at once.
        ///
        /// The operating system must allow the process to open at least as many files.
        ///
        /// ```
        /// # use mcp_runtime::http::ListenerOptions;
        /// let options = ListenerOptions::default().max_connections(1000);
        /// ```
        pub fn max_connections(self, connections: usize) { self.max_connections = connections.clamp(1, 1 << 20) }

        /// Sets the time after which a connection is closed if it has not received the head of its next request. The
        /// default is 75 seconds.
        ///
        /// The default is longer than the time for which most proxies keep idle connections, so that a proxy does not
        /// send a request on a connection that is about to close.
        pub fn header_timeout(self, timeout: Duration) { self.header_timeout = timeout.min(MAX_PERIOD) }

        /// Sets the maximum size, in bytes, of the head of a request: its first line and its headers. The default is 16
        /// KiB, and the minimum is 8 KiB.
        ///
        /// A longer head is rejected with status 431. Each connection buffers about as much of its input, so with the
        /// default [`max_connections`](Self::max_connections), unfinished heads occupy at most 160 MiB. A connection of
        /// HTTP/2 also buffers up to 128 KiB of bodies that are not read yet.
        pub fn max_head_bytes(self, bytes: usize) { self.max_head_bytes = bytes.max(8 << 10) }

        /// Sets the minimum rate, in bytes per second, at which a client must read. The default is 1024. Zero disables
        /// the check.
        ///
        /// While output waits for the client, its rate is averaged over each period of the
        /// [write timeout](Self::write_timeout), and the connection is closed if it falls below the minimum. A client that
        /// reads too slowly is therefore disconnected within twice the write timeout after the buffers of the operating
        /// systems are full. On Linux, the server's one holds at most 128 KiB that were not sent, and reports what a
        /// client reads in steps of up to 192 KiB, so with the defaults, a client that reads less than 3 KiB per second
        /// may be disconnected, too. Elsewhere, the buffer and the steps may be larger. Connections without pending
        /// output are not affected.
        pub fn min_read_rate(self, bytes_per_second: usize) { self.min_read_rate = bytes_per_second }

        /// Sets the time after which a connection is closed if its client accepts no data. The default is 2 minutes.
        ///
        /// The session and its resumable streams outlive the connection.
        pub fn write_timeout(self, timeout: Duration) { self.write_timeout = timeout }

        /// Sets the path of the liveness check, which succeeds while the server listens, with `{"status":"ok"}`. The
        /// default is `/healthz`; `None` disables the check.
        pub fn liveness_path<'a>(self, path: impl Into<Option<&'a str>>) {
            self.liveness_path = path.into().map(str::to_owned)
        }

        /// Sets the path of the readiness check. The default is `/readyz`; `None` disables the check. A mounted service
        /// has [`HttpService::is_ready`](crate::http::HttpService::is_ready) instead.
        ///
        /// The check fails with status 503 once the server shuts down, and while the [backend](crate::Server::backend)
        /// does not respond or accepts no changes. The response is JSON: `status` is `ok` or `unavailable`, `reason`
        /// says why the check fails, and `authenticator` is `ok`, or `unavailable` if the
        /// [authenticator](crate::Server::authenticate) could not examine the last request. Other replicas depend on
        /// the same authenticator, so it does not fail the check.
        ///
        /// ```
        /// # use mcp_runtime::http::ListenerOptions;
        /// let options = ListenerOptions::default().liveness_path("/live").readiness_path("/ready");
        /// let without = ListenerOptions::default().liveness_path(None).readiness_path(None);
        /// ```
        pub fn readiness_path<'a>(self, path: impl Into<Option<&'a str>>) {
            self.readiness_path = path.into().map(str::to_owned)
        }

        /// Sets how long the listener accepts connections after the shutdown signal, while the readiness check fails
        /// already. The default is zero. Programs with [`main!`](crate::main) set it with `--drain-delay`, and a
        /// mounted service waits in [`HttpService::drain`](crate::http::HttpService::drain).
        ///
        /// A load balancer or an orchestrator needs some seconds to notice that a server should get no more requests.
        /// In Kubernetes, choose 5 to 10 seconds, unless a `preStop` hook waits instead, and a
        /// `terminationGracePeriodSeconds` that is longer than this delay and the [grace
        /// period](crate::Server::shutdown_grace) together.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::http::ListenerOptions;
        /// let options = ListenerOptions::default().drain_delay(Duration::from_secs(5));
        /// ```
        pub fn drain_delay(self, delay: Duration) { self.drain_delay = delay }

        /// Sets whether to serve the HTTP transport of revision 2024-11-05 as well, with streams at `/sse` and messages
        /// at `/message`. The default is `false`.
        ///
        /// Deprecated since revision 2025-03-26:
        /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
        ///
        /// A session lives in the process that holds its stream, also with a shared [backend](crate::Server::backend):
        /// load balancers must send all requests of a client to the same process. See
        /// [Replicas](crate::guide::replicas).
        ///
        /// ```
        /// # use mcp_runtime::http::ListenerOptions;
        /// let options = ListenerOptions::default().legacy_sse(true);
        /// ```
        pub fn legacy_sse(self, enabled: bool) { self.legacy_sse = enabled }
    }
}

/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// An address on which a server listens for HTTP: a TCP address, or the path of a Unix socket.
///
/// It is parsed from `127.0.0.1:8080` or `unix:/run/my-server.sock`, and displayed in the same form.
///
/// ```
/// use std::path::PathBuf;
///
/// use mcp_runtime::http::HttpAddress;
///
/// assert_eq!(HttpAddress::from(([127, 0, 0, 1], 8080)), "127.0.0.1:8080".parse().unwrap());
/// assert_eq!(HttpAddress::Unix(PathBuf::from("/run/my-server.sock")), "unix:/run/my-server.sock".parse().unwrap());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAddress {
    /// A TCP address. Port 0 selects a free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl HttpAddress {
    /// Returns the TCP address, or `None` for a Unix socket.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns the URL of an endpoint. A Unix socket has the form that `proxy_pass` of nginx expects.
    pub(crate) fn url(&self, scheme: &str, path: &str) -> String {
        match self {
            Self::Tcp(address) => format!("{scheme}://{address}{path}"),
            Self::Unix(socket) => format!("{scheme}://{UNIX}{}:{path}", socket.display()),
        }
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for HttpAddress {
    type Err = InvalidHttpAddress;

    fn from_str(text: &str) -> Result<Self, InvalidHttpAddress> {
        match text.strip_prefix(UNIX) {
            Some(path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            _ => text.parse().map(Self::Tcp).map_err(|_| InvalidHttpAddress(text.to_owned())),
        }
    }
}

impl From<SocketAddr> for HttpAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<SocketAddrV4> for HttpAddress {
    fn from(address: SocketAddrV4) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<SocketAddrV6> for HttpAddress {
    fn from(address: SocketAddrV6) -> Self {
        Self::Tcp(address.into())
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for HttpAddress {
    fn from(address: (I, u16)) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<&Path> for HttpAddress {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl From<PathBuf> for HttpAddress {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

/// The error of parsing an [`HttpAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHttpAddress(String);

impl fmt::Display for InvalidHttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid address `{}`, expected an IP address and a port, such as 127.0.0.1:8080, or the path of a Unix \
             socket, such as unix:/run/my-server.sock",
            self.0
        )
    }
}

impl std::error::Error for InvalidHttpAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation of each option states its default.
    #[test]
    fn defaults_are_as_documented() {
        const MIB: usize = 1 << 20;
        let options = HttpOptions::default();
        assert_eq!(options.path, "/mcp");
        assert_eq!((options.max_body_bytes, options.max_total_body_bytes), (4 * MIB, 256 * MIB));
        assert_eq!((options.max_in_flight, options.max_sessions), (4096, 10_000));
        assert_eq!(options.max_unread_response_bytes, 256 * MIB);
        assert_eq!(options.max_peer_share.of(100), 75);
        let periods = [options.body_timeout, options.session_idle, options.keep_alive, options.stream_after];
        assert_eq!(periods.map(|period| period.as_secs()), [30, 30 * 60, 15, 2]);
        assert_eq!(options.expired_stream_grace, Some(Duration::from_secs(5 * 60)));

        let listener = ListenerOptions::default();
        assert_eq!((listener.max_connections, listener.max_head_bytes), (10_240, 16 << 10));
        assert_eq!(listener.min_read_rate, 1 << 10);
        let periods = [listener.header_timeout, listener.write_timeout, listener.drain_delay];
        assert_eq!(periods.map(|period| period.as_secs()), [75, 120, 0]);
        let paths = [listener.liveness_path, listener.readiness_path];
        assert_eq!(paths, ["/healthz", "/readyz"].map(|path| Some(path.to_owned())));
        assert!(!listener.legacy_sse);
    }

    #[test]
    fn addresses_are_parsed() {
        for (text, url) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080/mcp")),
            ("[::1]:80", Some("http://[::1]:80/mcp")),
            ("unix:/run/x.sock", Some("http://unix:/run/x.sock:/mcp")),
            ("unix:x.sock", Some("http://unix:x.sock:/mcp")),
            ("unix:", None),
            ("/run/x.sock", None),
            ("localhost:8080", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            let address: Result<HttpAddress, _> = text.parse();
            assert_eq!(address.as_ref().ok().map(|address| address.url("http", "/mcp")).as_deref(), url, "{text}");
            assert_eq!(address.is_ok().then_some(text), address.map(|address| address.to_string()).ok().as_deref());
        }
    }
}
