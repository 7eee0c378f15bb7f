//! Connecting a server to a telemetry system, such as OpenTelemetry.
//!
//! The runtime describes each request in a [`tracing`] span, in the names of the
//! [semantic conventions for MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md),
//! and depends on no telemetry system. [`Server::telemetry`](crate::Server::telemetry) sets a [`Telemetry`], which connects
//! spans to the trace of the client and receives measurements. The guide explains it in
//! [Observability](crate::guide::observability).

#[cfg(feature = "log")]
mod layer;
pub(crate) mod trace;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use tracing::Span;

#[cfg(feature = "log")]
pub use self::layer::TelemetryLayer;
pub use self::trace::{TraceCarrier, TraceContext};
use crate::stdx::debug;

/// Defines the trait, and implements it for `Arc`, which forwards every call. By default, a method ignores its arguments and
/// returns the default of its type.
macro_rules! define_telemetry {
    (
        $(#[$docs:meta])*
        pub trait $trait:ident: Send + Sync + 'static { $($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)* }
    ) => {
        $(#[$docs])*
        pub trait $trait: Send + Sync + 'static {
            $(
                $(#[$doc])*
                fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                    $(let _ = $argument;)*
                    Default::default()
                }
            )*
        }

        impl<T: $trait + ?Sized> $trait for Arc<T> {
            $(
                fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                    (**self).$name($($argument),*)
                }
            )*
        }
    };
}

define_telemetry! {
    /// A connection to a telemetry system. Every method has a default that does nothing.
    ///
    /// The methods are called on the path of a request, so they must neither block nor wait. A panic is logged, and
    /// what the method would have recorded or returned is lost.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use mcp_runtime::{Revision, Server, telemetry::{Operation, Telemetry}, tool};
    ///
    /// /// Add two numbers.
    /// #[tool]
    /// fn add(a: f64, b: f64) -> f64 {
    ///     a + b
    /// }
    ///
    /// /// Collects the methods that clients have called.
    /// #[derive(Default)]
    /// struct Methods(Mutex<Vec<(String, Option<String>)>>);
    ///
    /// impl Telemetry for Methods {
    ///     fn server_operation(&self, operation: &Operation<'_>) {
    ///         let tool = operation.tool.map(str::to_owned);
    ///         self.0.lock().unwrap().push((operation.method.to_owned(), tool));
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_runtime::testing::RpcError> {
    /// let methods = Arc::new(Methods::default());
    /// let server = Server::empty("adder", "1.0.0").with::<add>().telemetry(Arc::clone(&methods));
    /// let mut client = server.test_client(Revision::V2026_07_28);
    /// client.call("add", serde_json::json!({"a": 1, "b": 2})).await?;
    /// assert!(methods.0.lock().unwrap().contains(&("tools/call".to_owned(), Some("add".to_owned()))));
    /// # Ok(())
    /// # }
    /// ```
    pub trait Telemetry: Send + Sync + 'static {
        /// Called once, when the server is built, with access to its gauges and counters.
        fn connect(&self, stats: Stats);

        /// Decides that an operation is not sampled. Called before the span of a message is created. The default is
        /// `None`: the operation is sampled.
        ///
        /// The target of its span is then `mcp_runtime::request::unsampled`, for logs that name the request. The
        /// runtime enters the context for [`span_created`](Self::span_created), and while functions and layers of the
        /// operation run.
        fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled>;

        /// Called after the span of an operation was created, and before it is entered. Not called if no subscriber
        /// wants the span.
        ///
        /// `trace` is the trace context of the message, from which the parent of the span follows. It is empty for a
        /// request of the server, whose parent is the current span. The current span is the span around the operation,
        /// such as the span of the HTTP request. The hook may record `trace_id`, which then is a field of every log
        /// event of the operation.
        fn span_created(&self, span: &Span, trace: &TraceContext<'_>);

        /// Called if a request continues an earlier one, which has ended with questions to the client, with the trace
        /// context of that request. Not called if no subscriber wants the span.
        ///
        /// The client keeps the context between the requests, and may have replaced it.
        fn span_continues(&self, span: &Span, earlier: &TraceCarrier<'_>);

        /// Returns the trace context of a span, or that of the current context if the span is disabled. It is sent in
        /// the `_meta` of a request of the server to the client, and functions pass it on to other services
        /// ([`Context::trace_context`](crate::Context::trace_context)).
        fn inject(&self, span: &Span) -> TraceCarrier<'static>;

        /// Records a request or a notification of the client, after its response has been decided.
        fn server_operation(&self, operation: &Operation<'_>);

        /// Records a request of the server to the client, after its response has arrived or is no longer expected. In
        /// stateless revisions, servers send no requests.
        fn client_operation(&self, operation: &Operation<'_>);

        /// Records the function of a task, after it has ended. Its method is `tools/call`, and the request that has
        /// created the task is an operation of its own.
        fn task_operation(&self, operation: &Operation<'_>);

        /// Records a session that was opened by `initialize`, after it has ended.
        fn session_ended(&self, session: &SessionEnd<'_>);

        /// Records a response of HTTP that was an event stream, after it has ended.
        fn stream_ended(&self, stream: &StreamEnd);

        /// Records an operation of a shared backend, after it has ended. Not called for state in memory.
        fn backend_operation(&self, operation: &BackendOperation);

        /// Returns whether spans name the principal of the client, in the field `enduser.id`. The default is `false`.
        fn names_users(&self) -> bool;

        /// Returns whether the log names the principal although [spans do not](Self::names_users). The default is
        /// `false`.
        ///
        /// If so, a span `mcp.caller` with the target `mcp_runtime::request::caller` is around that of the request, and
        /// has the field `enduser.id`. Layers that export spans must leave out this target.
        fn names_users_in_log(&self) -> bool;
    }
}

/// An operation that is not sampled. See [`Telemetry::unsampled`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Unsampled {
    /// For `enter`, so that it can create a context only on demand. For example, the id of a new trace.
    pub id: u128,
    /// For `enter`. [`new`](Self::new) sets none, and operations without it share nothing that processors write.
    pub context: Option<Arc<dyn Any + Send + Sync>>,
    /// Makes the context of the operation current on the thread.
    pub enter: EnterContext,
    /// Whether the operation is measured. If not, and if no log wants its span, the runtime collects nothing and does not
    /// call [`server_operation`](Telemetry::server_operation).
    pub is_measured: bool,
}

impl Unsampled {
    /// Creates a decision from its fields.
    pub fn new(id: u128, enter: EnterContext, is_measured: bool) -> Self {
        Self { id, context: None, enter, is_measured }
    }
}

debug!(Unsampled, self, id: self.id, is_measured: self.is_measured);

/// Makes the context of an operation current on the thread, until the returned value is dropped.
pub type EnterContext = fn(&Unsampled) -> Box<dyn Any>;

/// Enters the context of an operation that is not sampled, until the returned value is dropped.
#[inline]
pub(crate) fn enter(operation: Option<&Unsampled>) -> Option<Box<dyn Any>> {
    operation.and_then(|operation| guarded(|| Some((operation.enter)(operation))))
}

/// Calls the author's code. A panic must not reach the request, whose response may not be decided yet.
#[inline]
fn guarded<T: Default>(run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        tracing::error!("the telemetry of the server panicked, so a measurement is lost");
        T::default()
    })
}

/// The telemetry of a server.
#[derive(Clone)]
pub(crate) struct SharedTelemetry(Arc<dyn Telemetry>);

impl SharedTelemetry {
    pub(crate) fn new(telemetry: impl Telemetry) -> Self {
        Self(Arc::new(telemetry))
    }

    /// Calls a method. If it panics, returns the default.
    #[inline]
    pub(crate) fn call<T: Default>(&self, method: impl FnOnce(&(dyn Telemetry + 'static)) -> T) -> T {
        guarded(|| method(&*self.0))
    }

    #[inline(always)]
    pub(crate) fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled> {
        // The result is large, and would be moved several times.
        let mut unsampled = None;
        self.call(|telemetry| unsampled = telemetry.unsampled(trace));
        unsampled
    }

    /// Returns the trace context of a span, without values that violate their format.
    pub(crate) fn inject(&self, span: &Span) -> TraceCarrier<'static> {
        self.call(|telemetry| telemetry.inject(span)).into_valid()
    }

    pub(crate) fn names_users(&self) -> bool {
        self.call(|telemetry| telemetry.names_users())
    }
}

debug!(SharedTelemetry, self);

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

debug!(Stats, self);

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
