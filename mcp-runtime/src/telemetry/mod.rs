//! Connecting a server to a telemetry system, such as OpenTelemetry.
//!
//! The runtime describes each request in a [`tracing`] span, in the names of the
//! [semantic conventions for MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md),
//! and depends on no telemetry system. [`Server::telemetry`](crate::Server::telemetry) sets a [`Telemetry`], which connects
//! spans to the trace of the client and receives measurements. The guide explains it in
//! [Observability](crate::guide::observability).

#[cfg(feature = "log")]
mod layer;
mod measurements;
mod trace;

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::Span;

#[cfg(feature = "log")]
pub use self::layer::TelemetryLayer;
pub(crate) use self::measurements::ReadStats;
pub use self::{
    measurements::{BackendOperation, Network, Operation, SessionEnd, Stat, Stats, StreamEnd},
    trace::{TraceCarrier, TraceContext},
};

/// A connection to a telemetry system. Every method has a default that does nothing.
///
/// The methods are called on the path of a request, so they must neither block nor wait. A panic is logged, and what the
/// method would have recorded or returned is lost.
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
    fn connect(&self, stats: Stats) {
        let _ = stats;
    }

    /// Decides that an operation is not sampled. Called before the span of a message is created. The default is `None`:
    /// the operation is sampled.
    ///
    /// The target of its span is then `mcp_runtime::request::unsampled`, for logs that name the request. The runtime enters
    /// the context for [`span_created`](Self::span_created), and while functions and layers of the operation run.
    fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled> {
        let _ = trace;
        None
    }

    /// Called after the span of an operation was created, and before it is entered. Not called if no subscriber wants the
    /// span.
    ///
    /// `trace` is the trace context of the message, from which the parent of the span follows. It is empty for a request
    /// of the server, whose parent is the current span. The current span is the span around the operation, such as the
    /// span of the HTTP request. The hook may record `trace_id`, which then is a field of every log event of the
    /// operation.
    fn span_created(&self, span: &Span, trace: &TraceContext<'_>) {
        let _ = (span, trace);
    }

    /// Called if a request continues an earlier one, which has ended with questions to the client, with the trace context
    /// of that request. Not called if no subscriber wants the span.
    ///
    /// The client keeps the context between the requests, and may have replaced it.
    fn span_continues(&self, span: &Span, earlier: &TraceCarrier<'_>) {
        let _ = (span, earlier);
    }

    /// Returns the trace context of a span, or that of the current context if the span is disabled. It is sent in the
    /// `_meta` of a request of the server to the client, and functions pass it on to other services
    /// ([`Context::trace_context`](crate::Context::trace_context)).
    fn inject(&self, span: &Span) -> TraceCarrier<'static> {
        let _ = span;
        TraceCarrier::default()
    }

    /// Records a request or a notification of the client, after its response has been decided.
    fn server_operation(&self, operation: &Operation<'_>) {
        let _ = operation;
    }

    /// Records a request of the server to the client, after its response has arrived or is no longer expected. In
    /// stateless revisions, servers send no requests.
    fn client_operation(&self, operation: &Operation<'_>) {
        let _ = operation;
    }

    /// Records the function of a task, after it has ended. Its method is `tools/call`, and the request that has created
    /// the task is an operation of its own.
    fn task_operation(&self, operation: &Operation<'_>) {
        let _ = operation;
    }

    /// Records a session that was opened by `initialize`, after it has ended.
    fn session_ended(&self, session: &SessionEnd<'_>) {
        let _ = session;
    }

    /// Records a response of HTTP that was an event stream, after it has ended.
    fn stream_ended(&self, stream: &StreamEnd) {
        let _ = stream;
    }

    /// Records an operation of a shared backend, after it has ended. Not called for state in memory.
    fn backend_operation(&self, operation: &BackendOperation) {
        let _ = operation;
    }

    /// Returns whether spans name the principal of the client, in the field `enduser.id`. The default is `false`.
    fn names_users(&self) -> bool {
        false
    }

    /// Returns whether the log names the principal although [spans do not](Self::names_users). The default is `false`.
    ///
    /// If so, a span `mcp.caller` with the target `mcp_runtime::request::caller` is around that of the request, and has
    /// the field `enduser.id`. Layers that export spans must leave out this target.
    fn names_users_in_log(&self) -> bool {
        false
    }
}

impl<T: Telemetry + ?Sized> Telemetry for Arc<T> {
    fn connect(&self, stats: Stats) {
        (**self).connect(stats);
    }

    fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled> {
        (**self).unsampled(trace)
    }

    fn span_created(&self, span: &Span, trace: &TraceContext<'_>) {
        (**self).span_created(span, trace);
    }

    fn span_continues(&self, span: &Span, earlier: &TraceCarrier<'_>) {
        (**self).span_continues(span, earlier);
    }

    fn inject(&self, span: &Span) -> TraceCarrier<'static> {
        (**self).inject(span)
    }

    fn server_operation(&self, operation: &Operation<'_>) {
        (**self).server_operation(operation);
    }

    fn client_operation(&self, operation: &Operation<'_>) {
        (**self).client_operation(operation);
    }

    fn task_operation(&self, operation: &Operation<'_>) {
        (**self).task_operation(operation);
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        (**self).session_ended(session);
    }

    fn stream_ended(&self, stream: &StreamEnd) {
        (**self).stream_ended(stream);
    }

    fn backend_operation(&self, operation: &BackendOperation) {
        (**self).backend_operation(operation);
    }

    fn names_users(&self) -> bool {
        (**self).names_users()
    }

    fn names_users_in_log(&self) -> bool {
        (**self).names_users_in_log()
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

impl fmt::Debug for Unsampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, is_measured, .. } = self;
        f.debug_struct("Unsampled").field("id", id).field("is_measured", is_measured).finish_non_exhaustive()
    }
}

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
pub(crate) struct SharedTelemetry(pub(crate) Arc<dyn Telemetry>);

impl SharedTelemetry {
    #[inline]
    fn guarded<T: Default>(&self, method: impl FnOnce(&dyn Telemetry) -> T) -> T {
        guarded(|| method(&*self.0))
    }
}

impl Telemetry for SharedTelemetry {
    fn connect(&self, stats: Stats) {
        self.guarded(|telemetry| telemetry.connect(stats));
    }

    #[inline(always)]
    fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled> {
        // The result is large, and would be moved several times.
        let mut unsampled = None;
        self.guarded(|telemetry| unsampled = telemetry.unsampled(trace));
        unsampled
    }

    fn span_created(&self, span: &Span, trace: &TraceContext<'_>) {
        self.guarded(|telemetry| telemetry.span_created(span, trace));
    }

    fn span_continues(&self, span: &Span, earlier: &TraceCarrier<'_>) {
        self.guarded(|telemetry| telemetry.span_continues(span, earlier));
    }

    /// Omits values that violate their format.
    fn inject(&self, span: &Span) -> TraceCarrier<'static> {
        self.guarded(|telemetry| telemetry.inject(span)).into_valid()
    }

    fn server_operation(&self, operation: &Operation<'_>) {
        self.guarded(|telemetry| telemetry.server_operation(operation));
    }

    fn client_operation(&self, operation: &Operation<'_>) {
        self.guarded(|telemetry| telemetry.client_operation(operation));
    }

    fn task_operation(&self, operation: &Operation<'_>) {
        self.guarded(|telemetry| telemetry.task_operation(operation));
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        self.guarded(|telemetry| telemetry.session_ended(session));
    }

    fn stream_ended(&self, stream: &StreamEnd) {
        self.guarded(|telemetry| telemetry.stream_ended(stream));
    }

    fn backend_operation(&self, operation: &BackendOperation) {
        self.guarded(|telemetry| telemetry.backend_operation(operation));
    }

    fn names_users(&self) -> bool {
        self.guarded(|telemetry| telemetry.names_users())
    }

    fn names_users_in_log(&self) -> bool {
        self.guarded(|telemetry| telemetry.names_users_in_log())
    }
}

impl fmt::Debug for SharedTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Telemetry")
    }
}
