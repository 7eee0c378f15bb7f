//! The measurements that telemetry receives: operations, sessions, streams, and the gauges and counters of a server.

use std::{fmt, sync::Weak, time::Duration};

/// A request or a notification that has been handled. All texts come from a set that clients cannot extend, so they are
/// suitable as attributes of metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// The method (`mcp.method.name`), or `_OTHER` if neither the protocol nor the server defines it.
    pub method: &'a str,
    /// The name of the tool (`gen_ai.tool.name`). `None` if the server has no such tool.
    pub tool: Option<&'a str>,
    /// The name of the prompt (`gen_ai.prompt.name`). `None` if the server has no such prompt.
    pub prompt: Option<&'a str>,
    /// The protocol version (`mcp.protocol.version`). `None` if it could not be determined.
    pub protocol_version: Option<&'static str>,
    /// The transport of the message.
    pub network: Network,
    /// The class of the error (`error.type`): the code of a JSON-RPC error, `tool_error` for a result with `isError`, or
    /// `cancelled`, `timeout` or `panic`. `None` if the operation has succeeded, or the error is a mistake of the client.
    pub error_type: Option<&'a str>,
    /// The code of the JSON-RPC error that was sent (`rpc.response.status_code`).
    pub status_code: Option<i32>,
    /// The time from the arrival of the message until its response was decided.
    pub duration: Duration,
}

/// The transport of a message or session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Network {
    /// `pipe` for stdio and other byte streams, `tcp` or `unix` for HTTP (`network.transport`). A mounted service, whose
    /// connections are those of the application, reports `tcp`.
    pub transport: &'static str,
    /// `http`, or `None` for byte streams (`network.protocol.name`).
    pub protocol_name: Option<&'static str>,
    /// The version of HTTP, such as `1.1` or `2` (`network.protocol.version`).
    pub protocol_version: Option<&'static str>,
}

impl Network {
    /// A byte stream.
    pub(crate) const PIPE: Self = Self { transport: "pipe", protocol_name: None, protocol_version: None };
    /// HTTP of an unknown version.
    pub(crate) const HTTP: Self = Self { transport: "tcp", protocol_name: Some("http"), protocol_version: None };
}

/// A session that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionEnd<'a> {
    /// The protocol version (`mcp.protocol.version`).
    pub protocol_version: &'static str,
    /// The transport over which the session was opened.
    pub network: Network,
    /// `timeout` if the client no longer answered pings (`error.type`). `None` if the session has ended in another way.
    pub error_type: Option<&'a str>,
    /// The time from `initialize` until the end.
    pub duration: Duration,
}

/// An event stream over HTTP that has ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StreamEnd {
    /// `call` for the response to a request, `session` for the messages outside of calls, which a client gets with a GET
    /// request, and `subscription` for the response to `subscriptions/listen`.
    pub kind: &'static str,
    /// The time from the start of the response to its end. A client may resume a stream in another response.
    pub duration: Duration,
}

/// An operation of a shared backend that has ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BackendOperation {
    /// The name of the method, such as `insert` or `append`.
    pub name: &'static str,
    /// The class of the error (`error.type`), such as `unavailable`. `None` if the operation has succeeded.
    pub error_type: Option<&'static str>,
    /// The time that the operation has taken.
    pub duration: Duration,
}

/// Access to the gauges and counters of a server. Clones are cheap, and do not keep the server alive.
///
/// Sessions and the buffers of HTTP and of tasks are those of the server. Everything else is counted for the process,
/// which usually has one server.
#[derive(Clone)]
pub struct Stats(Weak<dyn ReadStats>);

impl Stats {
    pub(crate) fn new(source: Weak<dyn ReadStats>) -> Self {
        Self(source)
    }

    /// Returns the current values. Each reading has the same statistics in the same order; empty once the server has
    /// been dropped.
    ///
    /// ```
    /// use mcp_runtime::Server;
    ///
    /// let server = Server::empty("empty", "1.0.0").build()?;
    /// let stats = server.stats().read();
    /// let sessions = stats.iter().find(|stat| stat.name == "mcp.server.sessions").unwrap();
    /// assert_eq!((sessions.value, sessions.is_counter), (0, false));
    /// # Ok::<_, mcp_runtime::BuildError>(())
    /// ```
    pub fn read(&self) -> Vec<Stat> {
        self.0.upgrade().map(|source| source.read_stats()).unwrap_or_default()
    }
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stats")
    }
}

/// The source of [`Stats`].
pub(crate) trait ReadStats: Send + Sync {
    /// Returns the current values, all of them and always in the same order.
    fn read_stats(&self) -> Vec<Stat>;
}

/// A gauge or counter. Statistics with the same name are one metric with several attributes, follow each other, and
/// differ in `attribute` and `value` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The name in the style of the semantic conventions, such as `mcp.server.sessions`.
    pub name: &'static str,
    /// A sentence without a full stop.
    pub description: &'static str,
    /// The unit in UCUM, such as `By` or `{call}`.
    pub unit: &'static str,
    /// Whether the value never decreases while the server runs.
    pub is_counter: bool,
    /// The attribute that distinguishes the values of a metric: its name and its value.
    pub attribute: Option<(&'static str, &'static str)>,
    /// The current value.
    pub value: u64,
}
