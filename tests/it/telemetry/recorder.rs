//! Telemetry and a subscriber that collect what a server records.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_runtime::telemetry::{
    BackendOperation, Network, Operation, SessionEnd, StreamEnd, Telemetry, TraceCarrier, TraceContext, Unsampled,
};
use tracing::{
    Span, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    layer::{Context as LayerContext, Layer},
    registry::LookupSpan,
};

/// The context of all requests to clients.
pub(super) const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Everything that a server has recorded, as `side method name version network error code`.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) operations: Mutex<Vec<String>>,
    /// The trace contexts of messages, with `-` for those that have none.
    pub(super) traces: Mutex<Vec<String>>,
    /// The contexts of the earlier requests that requests continue.
    pub(super) continued: Mutex<Vec<TraceCarrier<'static>>>,
    pub(super) streams: Mutex<Vec<&'static str>>,
    pub(super) names_users: bool,
    /// Whether operations are measured, none of which is sampled. If absent, all of them are sampled.
    pub(super) unsampled: Option<bool>,
}

impl Recorder {
    fn record(&self, side: &str, operation: &Operation<'_>) {
        assert!(operation.duration < Duration::from_secs(60), "{operation:?}");
        let name = operation.tool.or(operation.prompt).unwrap_or("-");
        let version = operation.protocol_version.unwrap_or("-");
        let (error, network) = (operation.error_type.unwrap_or("-"), network(operation.network));
        let code = operation.status_code.map_or("-".to_owned(), |code| code.to_string());
        let line = format!("{side} {} {name} {version} {network} {error} {code}", operation.method);
        self.operations.lock().unwrap().push(line);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.operations.lock().unwrap())
    }
}

fn network(network: Network) -> String {
    let Network { transport, protocol_name, protocol_version, .. } = network;
    [Some(transport), protocol_name, protocol_version].into_iter().flatten().collect::<Vec<_>>().join("/")
}

impl Telemetry for Recorder {
    fn unsampled(&self, _: &TraceContext<'_>) -> Option<Unsampled> {
        Some(Unsampled::new(0, |_| Box::new(()), self.unsampled?))
    }

    fn span_created(&self, span: &Span, trace: &TraceContext<'_>) {
        span.record("trace_id", "recorded");
        let fields = |carrier: &TraceCarrier<'_>| {
            let fields = TraceCarrier::KEYS.into_iter().filter_map(|key| Some(format!("{key}={}", carrier.get(key)?)));
            fields.collect::<Vec<_>>().join(" ")
        };
        let sent = format!("[{}] [{}]", fields(&trace.meta()), fields(&trace.headers()));
        self.traces.lock().unwrap().push(if trace.is_empty() { "-".to_owned() } else { sent });
    }

    fn span_continues(&self, _: &Span, earlier: &TraceCarrier<'_>) {
        let traceparent = earlier.traceparent.as_deref().map(|text| text.to_owned().into());
        self.continued.lock().unwrap().push(TraceCarrier { traceparent, ..TraceCarrier::default() });
    }

    fn inject(&self, _: &Span) -> TraceCarrier<'static> {
        TraceCarrier { traceparent: Some(TRACE.into()), ..TraceCarrier::default() }
    }

    fn server_operation(&self, operation: &Operation<'_>) {
        self.record("server", operation);
    }

    fn client_operation(&self, operation: &Operation<'_>) {
        self.record("client", operation);
    }

    fn task_operation(&self, operation: &Operation<'_>) {
        self.record("task", operation);
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        assert!(session.duration < Duration::from_secs(60), "{session:?}");
        let (version, network) = (session.protocol_version, network(session.network));
        let error = session.error_type.unwrap_or("-");
        self.operations.lock().unwrap().push(format!("session {version} {network} {error}"));
    }

    fn stream_ended(&self, stream: &StreamEnd) {
        assert!(stream.duration < Duration::from_secs(60), "{stream:?}");
        self.streams.lock().unwrap().push(stream.kind);
    }

    fn backend_operation(&self, operation: &BackendOperation) {
        let error = operation.error_type.unwrap_or("-");
        self.operations.lock().unwrap().push(format!("backend {} {error}", operation.name));
    }

    fn names_users(&self) -> bool {
        self.names_users
    }

    fn names_users_in_log(&self) -> bool {
        true
    }
}

pub(super) type Fields = BTreeMap<String, String>;

/// The spans that have ended, each with its name in the field `span`.
#[derive(Debug, Clone, Default)]
pub(super) struct Spans(pub(super) Arc<Mutex<Vec<Fields>>>);

struct Collected(Fields);

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: LayerContext<'_, S>) {
        let mut fields = Collected(Fields::from([("span".to_owned(), attributes.metadata().name().to_owned())]));
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        if let Some(around) = span.parent().filter(|_| span.name() == "mcp.call") {
            fields.0.insert("around".to_owned(), around.name().to_owned());
        }
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: LayerContext<'_, S>) {
        values.record(context.span(id).unwrap().extensions_mut().get_mut::<Collected>().unwrap());
    }

    fn on_follows_from(&self, id: &span::Id, follows: &span::Id, context: LayerContext<'_, S>) {
        let cause = context.span(follows).unwrap().name();
        let span = context.span(id).unwrap();
        span.extensions_mut().get_mut::<Collected>().unwrap().0.insert("follows".to_owned(), cause.to_owned());
    }

    fn on_close(&self, id: span::Id, context: LayerContext<'_, S>) {
        let fields = context.span(&id).unwrap().extensions_mut().remove::<Collected>();
        self.0.lock().unwrap().extend(fields.map(|fields| fields.0));
    }
}

impl Spans {
    /// Waits for the span of an operation to end, and removes all spans.
    pub(super) async fn take(&self, name: &str, method: &str) -> Fields {
        for _ in 0..1000 {
            let spans = std::mem::take(&mut *self.0.lock().unwrap());
            if let Some(span) = spans.into_iter().find(|span| span["span"] == name && span["mcp.method.name"] == method)
            {
                return span;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("no span `{name}` of `{method}` has ended");
    }
}
