//! Spans through the OpenTelemetry SDK, and the context that is read from and written to messages.

use std::{
    any::Any,
    cell::Cell,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};

use mcp_runtime::telemetry::{EnterContext, TraceCarrier, TraceContext};
use opentelemetry::{
    Context,
    baggage::{BaggageExt as _, KeyValueMetadata},
    propagation::{Extractor, Injector, TextMapCompositePropagator, TextMapPropagator},
    trace::{SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TracerProvider as _},
};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::{
    Resource,
    propagation::{BaggagePropagator, TraceContextPropagator},
    trace::{Config, IdGenerator, RandomIdGenerator, SamplingDecision, SdkTracerProvider, ShouldSample},
};
use tracing::{
    Level, Span, Subscriber, dispatcher,
    field::{Field, Visit},
    span::{Id, Record},
};
use tracing_opentelemetry::{OpenTelemetrySpanExt as _, get_otel_context};
use tracing_subscriber::{
    filter::{LevelFilter, filter_fn},
    layer::{Context as LayerContext, Identity, Layer},
    registry::LookupSpan,
};

use crate::{Error, config::Exporters, exporter};

static PROPAGATOR: LazyLock<TextMapCompositePropagator> = LazyLock::new(|| {
    TextMapCompositePropagator::new(vec![Box::new(TraceContextPropagator::new()), Box::new(BaggagePropagator::new())])
});

/// The destination of spans.
#[derive(Debug, Clone)]
pub(crate) enum Spans {
    /// With the sampler of the provider, which is asked before a span is created.
    Export(SdkTracerProvider, Arc<dyn ShouldSample>),
    /// Spans are not exported; the context is propagated.
    Propagate,
    Off,
}

/// Returns the destination of the program's spans, which the environment sets.
pub(crate) fn spans() -> &'static Result<Spans, Error> {
    static SPANS: OnceLock<Result<Spans, Error>> = OnceLock::new();
    SPANS.get_or_init(|| {
        let exporters = Exporters::of("TRACES")?;
        if exporters.otlp {
            let provider = SdkTracerProvider::builder().with_resource(resource()).with_id_generator(Ids::default());
            let provider = provider.with_batch_exporter(exporter::spans()?).build();
            // The default reads the environment, as that of the provider does.
            return Ok(Spans::Export(provider, Arc::from(Config::default().sampler)));
        }
        Ok(if exporters.none { Spans::Propagate } else { Spans::Off })
    })
}

thread_local! {
    /// The id of the next trace, whose first span was sampled by it.
    static NEXT_TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Random ids, so that the sampler decides again as it has decided before the span was created.
#[derive(Debug, Default)]
pub(crate) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        NEXT_TRACE.take().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}

impl Spans {
    /// Returns the layer of the subscriber.
    pub(crate) fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        match self {
            Self::Export(provider, _) => layer_with(provider.tracer("mcp-runtime")),
            // Its spans have the contexts of their parents.
            Self::Propagate => layer_with(opentelemetry::trace::noop::NoopTracer::new()),
            Self::Off => Identity::new().with_filter(LevelFilter::OFF).boxed(),
        }
    }

    /// Decides whether an operation is sampled. A span costs more than the rest of a call, and its attributes would be
    /// collected before the SDK decides.
    pub(crate) fn unsampled(&self, trace: &TraceContext<'_>) -> Option<EnterContext> {
        let context = match self {
            Self::Off => return None,
            Self::Propagate => parent(&trace.meta(), &trace.headers()),
            Self::Export(_, sampler) => {
                let parent = parent(&trace.meta(), &trace.headers());
                let parent_span = parent.span().span_context().clone();
                let ids = RandomIdGenerator::default();
                let trace_id = if parent_span.is_valid() { parent_span.trace_id() } else { ids.new_trace_id() };
                let result = sampler.should_sample(Some(&parent), trace_id, "", &SpanKind::Server, &[], &[]);
                if result.decision != SamplingDecision::Drop {
                    // A span that a filter disables would leave its id to the next trace of the thread.
                    let has_span = tracing::span_enabled!(target: OPERATION, Level::INFO);
                    NEXT_TRACE.set((has_span && !parent_span.is_valid()).then_some(trace_id));
                    return None;
                }
                let flags = TraceFlags::default();
                let own = SpanContext::new(trace_id, ids.new_span_id(), flags, false, result.trace_state);
                parent.with_remote_span_context(own)
            }
        };
        Some(Arc::new(move || Box::new(context.clone().attach()) as Box<dyn Any>))
    }
}

/// Returns the description of the program: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, or else the name of its executable.
pub(crate) fn resource() -> Resource {
    let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|attributes| attributes.contains("service.name="));
    let program = std::env::current_exe().ok().filter(|_| !is_named);
    let name = program.as_deref().and_then(std::path::Path::file_stem).and_then(std::ffi::OsStr::to_str);
    match name {
        Some(name) => Resource::builder().with_service_name(name.to_owned()).build(),
        None => Resource::builder().build(),
    }
}

/// Returns the `tracing` layer that exports spans, for a subscriber of your own. The subscriber of `main!()` and
/// `#[server]` already includes it.
///
/// It takes the spans of level `info` and above of all crates, and no events. It is switched off unless the environment
/// names an exporter of traces.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let subscriber = tracing_subscriber::registry().with(mcp_otel::layer());
/// ```
pub fn layer<S>() -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    spans().as_ref().unwrap_or(&Spans::Off).layer()
}

fn layer_with<S, T>(tracer: T) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    T: opentelemetry::trace::Tracer<Span: Send + Sync> + Send + Sync + 'static,
{
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let layer = layer.with_location(false).with_threads(false).with_target(false).with_tracked_inactivity(false);
    let layer = layer.and_then(Rename);
    // Events of level `error` would mark spans of successful calls as failed.
    let spans = filter_fn(|metadata| match metadata.target() {
        UNSAMPLED => false,
        CALL => metadata.is_span(),
        _ => metadata.is_span() && *metadata.level() <= Level::INFO,
    });
    layer.with_filter(spans.with_max_level_hint(LevelFilter::DEBUG)).boxed()
}

mcp_runtime::telemetry_layer!(layer);

/// The target of the runtime's spans of operations.
pub(crate) const OPERATION: &str = "mcp_runtime::request";
/// The target of its spans of operations that are not sampled.
const UNSAMPLED: &str = "mcp_runtime::request::unsampled";
/// The target of its spans of functions and layers, whose level is `debug`.
const CALL: &str = "mcp_runtime::call";

/// Changes the name of a span once its tool or prompt is known. `tracing-opentelemetry` ignores `otel.name` after a span was
/// entered.
struct Rename;

impl<S: Subscriber> Layer<S> for Rename {
    fn on_record(&self, id: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        let mut name = Name(None);
        values.record(&mut name);
        if let Some(name) = name.0
            && let Some(context) = dispatcher::get_default(|dispatch| get_otel_context(id, dispatch))
        {
            context.span().update_name(name);
        }
    }
}

/// The value of `otel.name`.
struct Name(Option<String>);

impl Visit for Name {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "otel.name" {
            self.0 = Some(format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "otel.name" {
            self.0 = Some(value.to_owned());
        }
    }
}

/// Returns the parent of an operation.
fn parent(meta: &TraceCarrier<'_>, headers: &TraceCarrier<'_>) -> Context {
    let sent = [meta, headers].into_iter().filter(|carrier| carrier.traceparent.is_some()).map(extract);
    if let Some(parent) = sent.into_iter().find(Context::has_active_span) {
        return parent;
    }
    let sent = if meta.baggage.is_some() { meta } else { headers };
    if sent.baggage.is_none() {
        return Context::current();
    }
    // Baggage alone must not cut the span off from the span around it.
    let sent = extract(sent);
    let members = sent
        .baggage()
        .iter()
        .map(|(key, (value, metadata))| KeyValueMetadata::new(key.clone(), value.clone(), metadata.clone()));
    Context::current().with_baggage(members)
}

/// Sets the parent of a span from the context of its message, and links the contexts that are not its parent.
pub(crate) fn span_created(span: &Span, trace: &TraceContext<'_>) {
    let (meta, headers) = (trace.meta(), trace.headers());
    if !meta.is_empty() || !headers.is_empty() {
        let parent = parent(&meta, &headers);
        let parent_span = parent.span().span_context().clone();
        let ambient = Context::current().span().span_context().clone();
        for other in [extract(&headers).span().span_context().clone(), ambient] {
            if other.is_valid()
                && (other.trace_id(), other.span_id()) != (parent_span.trace_id(), parent_span.span_id())
            {
                span.add_link(other);
            }
        }
        // Fails if the span is not recorded.
        let _ = span.set_parent(parent);
    }
    if span.has_field("trace_id") {
        let context = context_of(span);
        if context.span().span_context().is_valid() {
            span.record("trace_id", tracing::field::display(context.span().span_context().trace_id()));
        }
    }
}

/// Links a span to that of another context.
pub(crate) fn link(span: &Span, other: &TraceCarrier<'_>) {
    span.add_link(extract(other).span().span_context().clone());
}

/// Returns the context of a span, or the current one if the span is not exported.
fn context_of(span: &Span) -> Context {
    let context = span.context();
    if context.span().span_context().is_valid() { context } else { Context::current() }
}

/// Returns the context of a span, as the `_meta` of a message carries it.
pub(crate) fn inject(span: &Span) -> TraceCarrier<'static> {
    let mut carrier = TextCarrier(TraceCarrier::default());
    PROPAGATOR.inject_context(&context_of(span), &mut carrier);
    carrier.0
}

/// Returns the HTTP headers that hand the trace of the running call on to another service: `traceparent`, `tracestate`
/// and `baggage`. They are empty outside of a call, and if spans are switched off.
///
/// ```
/// # async fn price(client: reqwest::Client, item: &str) -> reqwest::Result<String> {
/// let request = client.get(format!("https://prices.example.com/{item}")).headers(mcp_otel::headers());
/// request.send().await?.text().await
/// # }
/// ```
pub fn headers() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    PROPAGATOR.inject_context(&Context::current(), &mut HeaderInjector(&mut headers));
    // The propagator writes an empty value.
    if headers.get("tracestate").is_some_and(http::HeaderValue::is_empty) {
        headers.remove("tracestate");
    }
    headers
}

fn extract(carrier: &TraceCarrier<'_>) -> Context {
    PROPAGATOR.extract_with_context(&Context::new(), &TextCarrier(carrier.clone()))
}

struct TextCarrier<'a>(TraceCarrier<'a>);

impl Extractor for TextCarrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    fn keys(&self) -> Vec<&str> {
        TraceCarrier::KEYS.to_vec()
    }
}

impl Injector for TextCarrier<'_> {
    fn set(&mut self, key: &str, value: String) {
        let value = Some(value.into()).filter(|value: &std::borrow::Cow<'_, str>| !value.is_empty());
        match key {
            "traceparent" => self.0.traceparent = value,
            "tracestate" => self.0.tracestate = value,
            "baggage" => self.0.baggage = value,
            _ => {}
        }
    }
}
