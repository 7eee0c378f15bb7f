use std::time::Duration;

use crate::{engine::MAX_PERIOD, model::setters};

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
    }

    /// Sets the path of the liveness check, which succeeds while the server listens, with `{"status":"ok"}`. The default is
    /// `/healthz`; `None` disables the check.
    #[must_use]
    pub fn liveness_path<'a>(mut self, path: impl Into<Option<&'a str>>) -> Self {
        self.liveness_path = path.into().map(str::to_owned);
        self
    }

    /// Sets the path of the readiness check. The default is `/readyz`; `None` disables the check. A mounted service has
    /// [`HttpService::is_ready`](crate::http::HttpService::is_ready) instead.
    ///
    /// The check fails with status 503 once the server shuts down, and while the [backend](crate::Server::backend) does
    /// not respond or accepts no changes. The response is JSON: `status` is `ok` or `unavailable`, `reason` says why the
    /// check fails, and `authenticator` is `ok`, or `unavailable` if the [authenticator](crate::Server::authenticate) could
    /// not examine the last request. Other replicas depend on the same authenticator, so it does not fail the check.
    ///
    /// ```
    /// # use mcp_runtime::http::ListenerOptions;
    /// let options = ListenerOptions::default().liveness_path("/live").readiness_path("/ready");
    /// let without = ListenerOptions::default().liveness_path(None).readiness_path(None);
    /// ```
    #[must_use]
    pub fn readiness_path<'a>(mut self, path: impl Into<Option<&'a str>>) -> Self {
        self.readiness_path = path.into().map(str::to_owned);
        self
    }

    setters! {
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
