//! An operation: the span in which a message is handled, and its measurement. Both end when the response is decided.
//!
//! See [Semantic conventions for MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).

use std::{
    borrow::Cow,
    cell::Cell,
    time::{Duration, Instant},
};

use tracing::Span;

use super::params::Method;
use crate::{
    auth::RequestHead,
    error::{Fault, FaultClass, excerpt},
    handler::{Function, entry::EntryKind},
    jsonrpc::{Id, raw},
    revision::{self, Dialect},
    stdx::debug,
    telemetry::{self, Network, SharedTelemetry, Telemetry, TraceCarrier, Unsampled},
};

/// The name of all unknown methods, whose number clients could otherwise increase without bound.
pub(crate) const OTHER: &str = "_OTHER";

pub(super) fn known_method(method: &str) -> &'static str {
    Method::named(method).map_or_else(|| revision::method_name(method).unwrap_or(OTHER), Method::name)
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With a result or, for a notification, without a response.
    Complete,
    /// With a failure of this class that is not a JSON-RPC error: a result with `isError`, or no response.
    Failed(&'static str),
    /// With a JSON-RPC error, which has this class if its code does not tell it.
    Fault(Fault, Option<&'static str>),
}

const INITIALIZE: &str = Method::Initialize.name();

/// The class of a result with `isError`.
pub(crate) const TOOL_ERROR: &str = "tool_error";
/// The class of an operation that the client has cancelled, or whose client is gone.
pub(crate) const CANCELLED: &str = "cancelled";
/// The class of an operation that has taken too long.
pub(crate) const TIMEOUT: &str = "timeout";
/// The class of an operation whose function has panicked.
pub(crate) const PANIC: &str = "panic";

impl Ending {
    /// Returns the class of the fault, if it has one.
    pub(crate) fn class(&self) -> Option<FaultClass> {
        match self {
            Self::Fault(fault, _) => fault.class(),
            Self::Complete | Self::Failed(_) => None,
        }
    }
}

/// An operation that has not ended. If it is dropped, it was cancelled.
pub(crate) struct Operation {
    pub(crate) span: Span,
    /// Set if the operation is not sampled.
    pub(crate) unsampled: Option<Unsampled>,
    /// `None` without telemetry, and once the operation has ended or was [taken](Self::take).
    measured: Cell<Option<Box<Measured>>>,
    /// Whether there is telemetry. Without it, the methods return at once.
    is_measured: bool,
}

/// The method of telemetry that records an operation.
type Record = fn(&(dyn Telemetry + 'static), &telemetry::Operation<'_>);

/// The facts about an operation that telemetry records when it ends.
pub(super) struct Measured {
    telemetry: SharedTelemetry,
    record: Record,
    /// Whether the server has sent the request.
    pub(super) is_sent: bool,
    method: Cow<'static, str>,
    pub(super) tool: Option<Cow<'static, str>>,
    prompt: Option<Cow<'static, str>>,
    pub(super) protocol_version: Option<&'static str>,
    network: Network,
    start: Instant,
}

impl Operation {
    /// Creates an operation without a span, which is not measured.
    pub(crate) fn none() -> Self {
        Self::unmeasured(Span::none(), None)
    }

    #[inline]
    pub(super) fn unmeasured(span: Span, unsampled: Option<Unsampled>) -> Self {
        Self { span, unsampled, measured: Cell::new(None), is_measured: false }
    }

    pub(super) fn measured(span: Span, unsampled: Option<Unsampled>, measured: Measured) -> Self {
        Self { span, unsampled, measured: Cell::new(Some(Box::new(measured))), is_measured: true }
    }

    /// Enters the span of the operation, or the context that it has instead, until the returned value is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> impl Sized {
        (telemetry::enter(self.unsampled.as_ref()), self.span.enter())
    }

    /// Records the dialect of the request.
    #[inline]
    pub(crate) fn set_dialect(&self, dialect: &'static Dialect) {
        if self.is_measured {
            self.record_dialect(dialect);
        }
    }

    #[inline(never)]
    fn record_dialect(&self, dialect: &'static Dialect) {
        self.update(|measured| {
            // The version of `initialize` is negotiated later, and exporters would show both.
            if measured.method != INITIALIZE {
                self.span.record("mcp.protocol.version", dialect.name());
            }
            measured.protocol_version = Some(dialect.name());
        });
    }

    /// Records the function that the request concerns.
    #[inline]
    pub(crate) fn set_function(&self, function: &Function) {
        if self.is_measured || !self.span.is_disabled() {
            self.record_function(function);
        }
    }

    #[inline(never)]
    fn record_function(&self, function: &Function) {
        let name = &function.name;
        let field = match function.kind() {
            EntryKind::Tool => Some("gen_ai.tool.name"),
            EntryKind::Prompt => Some("gen_ai.prompt.name"),
            EntryKind::Method => None,
            EntryKind::Resource => return,
        };
        if let Some(field) = field {
            self.span.record(field, &**name);
        }
        self.update(|measured| {
            match function.kind() {
                EntryKind::Tool => measured.tool = Some(name.clone()),
                EntryKind::Prompt => measured.prompt = Some(name.clone()),
                // A registered method is known, although the protocol does not define it.
                EntryKind::Method | EntryKind::Resource => measured.method = name.clone(),
            }
            if !self.span.is_disabled() {
                let subject = field.map(|_| format!(" {name}")).unwrap_or_default();
                self.span.record("otel.name", format!("{}{subject}", measured.method));
            }
        });
    }

    /// Ends the operation unless it has ended, or was taken.
    #[inline(never)]
    fn record_cancellation(&self) {
        if let Some(measured) = self.measured.take() {
            self.span.record("error.type", CANCELLED);
            self.span.record("otel.status_code", "error");
            measured.record(Some(CANCELLED), None);
        }
    }

    /// Links the span to that of the request that this one continues.
    pub(crate) fn continues(&self, traceparent: &str) {
        let earlier = TraceCarrier::validated(|key| (key == 0).then_some(Cow::Borrowed(traceparent)));
        if !self.span.is_disabled() && !earlier.is_empty() {
            self.update(|measured| measured.telemetry.call(|telemetry| telemetry.span_continues(&self.span, &earlier)));
        }
    }

    /// Returns the `traceparent` of the span, unless it is not recorded.
    pub(crate) fn traceparent(&self) -> Option<String> {
        let is_recorded = !self.span.is_disabled() && self.unsampled.is_none();
        if is_recorded { self.carrier().traceparent.map(Cow::into_owned) } else { None }
    }

    /// Records the id of a request to the client.
    pub(crate) fn set_request_id(&self, id: u64) {
        if !self.span.is_disabled() {
            self.span.record("jsonrpc.request.id", id.to_string());
        }
    }

    /// Returns the trace context that a request to the client carries.
    pub(crate) fn carrier(&self) -> TraceCarrier<'static> {
        let mut carrier = TraceCarrier::default();
        self.update(|measured| carrier = measured.telemetry.inject(&self.span));
        carrier
    }

    fn update(&self, update: impl FnOnce(&mut Measured)) {
        if let Some(mut measured) = self.measured.take() {
            update(&mut measured);
            self.measured.set(Some(measured));
        }
    }

    /// Measures nothing, since the request was not sent.
    pub(crate) fn discard(&self) {
        self.measured.take();
    }

    /// Moves the operation to code that responds later. The original no longer ends it.
    pub(crate) fn take(&self) -> Self {
        let (span, unsampled) = (self.span.clone(), self.unsampled.clone());
        Self { span, unsampled, measured: Cell::new(self.measured.take()), is_measured: self.is_measured }
    }

    /// Takes an operation back that could not be passed on.
    pub(crate) fn restore(&self, taken: &Self) {
        self.measured.set(taken.measured.take());
    }

    /// Ends the operation. Has no effect without telemetry, or if it has ended or was taken.
    #[inline]
    pub(crate) fn end(&self, dialect: &Dialect, ending: &Ending) {
        if self.is_measured {
            self.record_end(dialect, ending);
        }
    }

    #[inline(never)]
    fn record_end(&self, dialect: &Dialect, ending: &Ending) {
        let Some(measured) = self.measured.take() else { return };
        if measured.method == INITIALIZE {
            self.span.record("mcp.protocol.version", measured.protocol_version);
        }
        let (error_type, code) = match ending {
            Ending::Complete => return measured.record(None, None),
            Ending::Failed(class) => (Cow::Borrowed(*class), None),
            Ending::Fault(fault, class) => {
                let code = dialect.code(fault);
                let text = code.to_string();
                self.span.record("rpc.response.status_code", &*text);
                if !measured.is_sent && class.is_none() && revision::is_mistake(code) {
                    return measured.record(None, Some(code));
                }
                // Its message repeats headers and arguments.
                if !matches!(fault, Fault::HeaderMismatch(_)) {
                    self.span.record("otel.status_description", &*excerpt(&fault.to_string()));
                }
                (class.map_or(Cow::Owned(text), Cow::Borrowed), Some(code))
            }
        };
        self.span.record("error.type", &*error_type);
        self.span.record("otel.status_code", "error");
        measured.record(Some(&error_type), code);
    }
}

impl Drop for Operation {
    #[inline]
    fn drop(&mut self) {
        if self.is_measured {
            self.record_cancellation();
        }
    }
}

debug!(Operation, self, span: self.span);

impl Measured {
    pub(super) fn new(
        telemetry: &SharedTelemetry,
        record: Record,
        method: &'static str,
        network: Network,
        start: Instant,
    ) -> Self {
        let (tool, prompt, protocol_version) = (None, None, None);
        let (is_sent, method) = (false, Cow::Borrowed(method));
        Self { telemetry: telemetry.clone(), record, is_sent, method, tool, prompt, protocol_version, network, start }
    }

    fn record(&self, error_type: Option<&str>, status_code: Option<i32>) {
        let &Self { ref method, ref tool, ref prompt, protocol_version, network, start, .. } = self;
        let (tool, prompt) = (tool.as_deref(), prompt.as_deref());
        let duration: Duration = start.elapsed();
        let operation =
            telemetry::Operation { method, tool, prompt, protocol_version, network, error_type, status_code, duration };
        self.telemetry.call(|telemetry| (self.record)(telemetry, &operation));
    }
}

/// Returns the principal as far as spans may name it. Without telemetry, spans never leave the log.
pub(super) fn shown_principal<'a>(
    telemetry: Option<&SharedTelemetry>,
    principal: Option<&'a str>,
) -> Option<Cow<'a, str>> {
    principal.filter(|_| telemetry.is_none_or(SharedTelemetry::names_users)).map(excerpt)
}

/// Returns an id as text: a string without quotation marks.
pub(super) fn id_text(id: &Id) -> Cow<'_, str> {
    raw::string(id.as_json()).unwrap_or(Cow::Borrowed(id.as_json()))
}

/// Returns the transport of the request with a head.
pub(super) fn head_network(head: &dyn RequestHead) -> Network {
    let (transport, version) = head.network();
    Network { transport, protocol_version: Some(version), ..Network::HTTP }
}
