//! Starts operations: for messages of the client, and for requests to it.

use std::{
    borrow::Cow,
    cell::LazyCell,
    pin::Pin,
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use tracing::{Instrument as _, Level, Span, field::Empty, span::Id as SpanId};

use super::{
    context::ConnectionContext,
    operation::{Measured, Operation, head_network, id_text, known_method, shown_principal},
    params::{Method, Params, Subject},
};
use crate::{
    engine::session::{Session, SessionTelemetry},
    error::excerpt,
    handler::Context,
    jsonrpc::{Id, RawJson},
    random::log_id,
    telemetry::{Network, SharedTelemetry, Telemetry, TraceContext, enter},
};

impl Operation {
    /// Starts the operation of a message of the client. A notification has no id.
    ///
    /// If there is no telemetry and no subscriber wants the span, this costs an atomic load: nothing is formatted.
    #[inline]
    pub(crate) fn start(connection: &ConnectionContext, method: &str, params: &Params<'_>, id: Option<&Id>) -> Self {
        match &connection.engine.profile.telemetry {
            None => Self::unmeasured(message_span(connection, method, params, id, None, false), None),
            Some(telemetry) => Self::start_measured(telemetry, connection, method, params, id),
        }
    }

    #[inline(never)]
    fn start_measured(
        telemetry: &SharedTelemetry,
        connection: &ConnectionContext,
        method: &str,
        params: &Params<'_>,
        id: Option<&Id>,
    ) -> Self {
        let trace = TraceContext { meta: &params.meta.trace, head: connection.source.as_deref().map(|it| it as _) };
        let unsampled = telemetry.unsampled(&trace);
        let span = message_span(connection, method, params, id, Some(telemetry), unsampled.is_some());
        if !span.is_disabled() {
            let _entered = enter(unsampled.as_ref());
            telemetry.call(|telemetry| telemetry.span_created(&span, &trace));
        }
        if span.is_disabled() && unsampled.as_ref().is_some_and(|unsampled| !unsampled.is_measured) {
            return Self::unmeasured(span, unsampled);
        }
        let record = <dyn Telemetry>::server_operation;
        let start = connection.clock.last();
        let measured = Measured::new(telemetry, record, known_method(method), network(connection), start);
        Self::measured(span, unsampled, measured)
    }

    /// Starts the operation of a request to the client of a session.
    pub(crate) fn to_client(session: &Session, method: &str) -> Self {
        let Some(SessionTelemetry { telemetry, network, .. }) = session.telemetry.as_deref() else {
            return Self::none();
        };
        let (method, version) = (known_method(method), session.info.dialect.name());
        let span = tracing::info_span!(
            target: "mcp_runtime::request",
            "mcp.client_request",
            otel.name = method,
            otel.kind = "client",
            otel.status_code = Empty,
            otel.status_description = Empty,
            trace_id = Empty,
            mcp.method.name = method,
            mcp.session.id = session.id().map(log_id),
            mcp.protocol.version = version,
            jsonrpc.request.id = Empty,
            rpc.response.status_code = Empty,
            error.type = Empty,
            network.transport = network.transport,
            network.protocol.name = network.protocol_name,
            network.protocol.version = network.protocol_version,
        );
        if !span.is_disabled() {
            telemetry.call(|telemetry| telemetry.span_created(&span, &TraceContext::default()));
        }
        let record = <dyn Telemetry>::client_operation;
        let mut measured = Measured::new(telemetry, record, method, *network, Instant::now());
        (measured.protocol_version, measured.is_sent) = (Some(version), true);
        Self::measured(span, None, measured)
    }

    /// Starts the operation of a task, whose span is linked to that of the request that has created it: it has the same
    /// parent, since that request ends long before the task.
    pub(crate) fn of_task(context: &Context) -> Self {
        let (call, telemetry) = (context.call(), context.shared().telemetry.as_ref());
        let unsampled = context.shared().unsampled.clone();
        let _entered = enter(unsampled.as_ref());
        let caller = caller_span(telemetry, context.principal(), || None);
        let span = tracing::info_span!(
            target: "mcp_runtime::request",
            parent: caller.id(),
            "mcp.task",
            otel.name = telemetry.map(|_| format!("task {}", call.name)).as_deref(),
            otel.status_code = Empty,
            otel.status_description = Empty,
            trace_id = Empty,
            mcp.method.name = "tools/call",
            mcp.protocol.version = telemetry.map(|_| call.encoding.dialect.name()),
            gen_ai.operation.name = telemetry.map(|_| "execute_tool"),
            jsonrpc.request.id = &*id_text(&call.id),
            gen_ai.tool.name = &*call.name,
            rpc.response.status_code = Empty,
            error.type = Empty,
            enduser.id = shown_principal(telemetry, context.principal()).as_deref(),
        );
        span.follows_from(Span::current());
        let Some(telemetry) = telemetry else {
            return Self::unmeasured(span, unsampled);
        };
        let head = context.head();
        if !span.is_disabled() {
            let meta = context.shared().meta.as_deref().map(|meta| super::params::Meta::read(RawJson::new(meta)).trace);
            let trace = TraceContext { meta: &meta.unwrap_or_default(), head };
            telemetry.call(|telemetry| telemetry.span_created(&span, &trace));
        }
        let record = <dyn Telemetry>::task_operation;
        let network = head.map_or(Network::PIPE, head_network);
        let mut measured = Measured::new(telemetry, record, "tools/call", network, Instant::now());
        measured.protocol_version = Some(call.encoding.dialect.name());
        measured.tool = Some(call.name.clone());
        Self::measured(span, unsampled, measured)
    }
}

/// Creates the span in which a message is handled: everything that runs for it, such as its function and the layers
/// around that, whether in place, in a tokio task or on a blocking thread.
fn message_span(
    connection: &ConnectionContext,
    method: &str,
    params: &Params<'_>,
    id: Option<&Id>,
    telemetry: Option<&SharedTelemetry>,
    is_unsampled: bool,
) -> Span {
    // Most messages have no span.
    let network = LazyCell::new(|| telemetry.map(|_| network(connection)));
    let address = LazyCell::new(|| network.and_then(|_| connection.source.as_deref()?.peer_addr()));
    let caller = caller_span(telemetry, connection.principal(), || Span::current().id());
    let _inside = caller.enter();
    // Telemetry does not want the spans of the second target, which is known before a message arrives.
    macro_rules! span {
        ($target:literal) => {
            tracing::info_span!(
                target: $target,
                "mcp.request",
                otel.name = network.map(|_| known_method(method)),
                otel.kind = network.map(|_| "server"),
                otel.status_code = Empty,
                otel.status_description = Empty,
                trace_id = Empty,
                mcp.method.name = &*excerpt(method),
                // A connection without a source has one session, whose id says nothing.
                mcp.session.id = connection.source.as_ref().and_then(|_| connection.session.get()?.id()).map(log_id),
                mcp.protocol.version = Empty,
                mcp.resource.uri = network.and_then(|_| resource_uri(method, params)).as_deref().map(excerpt).as_deref(),
                gen_ai.operation.name = network.filter(|_| method == "tools/call").map(|_| "execute_tool"),
                gen_ai.tool.name = Empty,
                gen_ai.prompt.name = Empty,
                jsonrpc.request.id = id.map(id_text).as_deref().map(excerpt).as_deref(),
                rpc.response.status_code = Empty,
                error.type = Empty,
                enduser.id = shown_principal(telemetry, connection.principal()).as_deref(),
                network.transport = network.map(|network| network.transport),
                network.protocol.name = network.and_then(|network| network.protocol_name),
                network.protocol.version = network.and_then(|network| network.protocol_version),
                client.address = address.map(|address| address.ip().to_string()).as_deref(),
                // Layers convert signed numbers only.
                client.port = address.map(|address| i64::from(address.port())),
            )
        };
    }
    if is_unsampled { span!("mcp_runtime::request::unsampled") } else { span!("mcp_runtime::request") }
}

/// Creates the span that names the principal to the log if the span of the operation must not, since it leaves the
/// machine, and telemetry can tell them apart.
fn caller_span(
    telemetry: Option<&SharedTelemetry>,
    principal: Option<&str>,
    around: impl FnOnce() -> Option<SpanId>,
) -> Span {
    let names_in_log = |telemetry: &SharedTelemetry| telemetry.call(|telemetry| telemetry.names_users_in_log());
    let is_hidden = |telemetry: &SharedTelemetry| !telemetry.names_users() && names_in_log(telemetry);
    let hidden = principal.filter(|_| telemetry.is_some_and(is_hidden));
    hidden.map_or_else(Span::none, |principal| {
        let id = &*excerpt(principal);
        tracing::info_span!(target: "mcp_runtime::request::caller", parent: around(), "mcp.caller", enduser.id = id)
    })
}

/// Creates the span of a function or of a layer. Its level keeps it out of logs of level `info`, which name the request.
#[inline]
pub(crate) fn call_span(title: impl FnOnce() -> String) -> Span {
    tracing::debug_span!(target: "mcp_runtime::call", "mcp.call", otel.name = &*title())
}

/// The span around the future of a function or of a layer. A call that is not sampled has none.
pub(crate) enum CallSpan {
    Fixed(Span),
    /// The call may become a task, whose span is then around the rest of it.
    Following(String),
}

impl CallSpan {
    pub(crate) fn new(context: &Context, title: impl FnOnce() -> String) -> Self {
        let call = context.shared();
        if call.unsampled.is_some() {
            return Self::Fixed(Span::none());
        }
        if call.task.is_some() && tracing::span_enabled!(target: "mcp_runtime::call", Level::DEBUG) {
            return Self::Following(title());
        }
        Self::Fixed(call_span(title))
    }

    /// Runs what creates the future.
    pub(crate) fn in_scope<T>(&self, start: impl FnOnce() -> T) -> T {
        match self {
            Self::Fixed(span) => span.in_scope(start),
            Self::Following(_) => start(),
        }
    }

    pub(crate) fn around<'a, T: 'a>(self, running: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        match self {
            Self::Fixed(span) if span.is_disabled() => running,
            Self::Fixed(span) => Box::pin(running.instrument(span)),
            Self::Following(title) => Box::pin(Following { running, title, span: Span::none(), around: None }),
        }
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future with a span inside of the current one, even if another one becomes the current one: its first span would
/// keep the span of the request open for as long as the task runs.
struct Following<'a, T> {
    running: BoxFuture<'a, T>,
    title: String,
    span: Span,
    /// The span that `span` is inside of.
    around: Option<SpanId>,
}

impl<T> Future for Following<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        let Self { running, title, span, around } = self.get_mut();
        let current = Span::current().id();
        if span.is_disabled() || *around != current {
            (*span, *around) = (call_span(|| title.clone()), current);
        }
        span.in_scope(|| running.as_mut().poll(cx))
    }
}

/// Returns the URI in the request of a method that has one.
fn resource_uri<'a>(method: &str, params: &Params<'a>) -> Option<Cow<'a, str>> {
    matches!(Method::named(method)?.subject(), Subject::Uri | Subject::UnmirroredUri)
        .then(|| params.uri.and_then(RawJson::string))?
}

/// Returns the transport of the messages of a connection.
pub(crate) fn network(connection: &ConnectionContext) -> Network {
    connection.source.as_deref().map_or(Network::PIPE, |source| head_network(source))
}
