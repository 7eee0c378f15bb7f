//! Spans through the OpenTelemetry SDK, and the context that is read from and written to messages.

use std::{
    fmt,
    sync::{LazyLock, OnceLock},
};

use mcp_runtime::telemetry::{TraceCarrier, TraceContext};
use opentelemetry::{
    Context,
    baggage::{BaggageExt as _, KeyValueMetadata},
    propagation::{Extractor, Injector, TextMapCompositePropagator, TextMapPropagator},
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::{
    Resource,
    propagation::{BaggagePropagator, TraceContextPropagator},
    trace::SdkTracerProvider,
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
    Export(SdkTracerProvider),
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
            let provider = SdkTracerProvider::builder().with_resource(resource());
            return Ok(Spans::Export(provider.with_batch_exporter(exporter::spans()?).build()));
        }
        Ok(if exporters.none { Spans::Propagate } else { Spans::Off })
    })
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
    match spans() {
        Ok(Spans::Export(provider)) => layer_with(provider.tracer("mcp-runtime")),
        // Its spans have the contexts of their parents.
        Ok(Spans::Propagate) => layer_with(opentelemetry::trace::noop::NoopTracer::new()),
        Ok(Spans::Off) | Err(_) => Identity::new().with_filter(LevelFilter::OFF).boxed(),
    }
}

pub(crate) fn layer_with<S, T>(tracer: T) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    T: opentelemetry::trace::Tracer<Span: Send + Sync> + Send + Sync + 'static,
{
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let layer = layer.with_location(false).with_threads(false).with_target(false).with_tracked_inactivity(false);
    let layer = layer.and_then(Rename);
    // Events of level `error` would mark spans of successful calls as failed.
    let spans = filter_fn(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO);
    layer.with_filter(spans.with_max_level_hint(LevelFilter::INFO)).boxed()
}

mcp_runtime::telemetry_layer!(layer);

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

/// Sets the parent of a span from the context of its message, and links the contexts that are not its parent.
pub(crate) fn span_created(span: &Span, trace: &TraceContext<'_>) {
    if !trace.meta.is_empty() || !trace.headers.is_empty() {
        let [meta, headers] = [&trace.meta, &trace.headers].map(extract);
        let ambient = Context::current().span().span_context().clone();
        let [in_meta, in_headers] = [&meta, &headers].map(|context| context.span().span_context().clone());
        let parent = match (in_meta.is_valid(), in_headers.is_valid()) {
            (true, _) => meta,
            (false, true) => headers,
            // Baggage alone must not cut the span off from the span around it.
            (false, false) => {
                let sent = if trace.meta.baggage.is_some() { meta } else { headers };
                let members = sent.baggage().iter().map(|(key, (value, metadata))| {
                    KeyValueMetadata::new(key.clone(), value.clone(), metadata.clone())
                });
                Context::current().with_baggage(members)
            }
        };
        let parent_span = parent.span().span_context().clone();
        for other in [in_headers, ambient] {
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
        let context = span.context();
        if context.span().span_context().is_valid() {
            span.record("trace_id", tracing::field::display(context.span().span_context().trace_id()));
        }
    }
}

/// Returns the context of a span, as the `_meta` of a message carries it.
pub(crate) fn inject(span: &Span) -> TraceCarrier<'static> {
    let mut carrier = TextCarrier(TraceCarrier::default());
    PROPAGATOR.inject_context(&span.context(), &mut carrier);
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
