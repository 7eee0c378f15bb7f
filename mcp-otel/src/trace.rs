//! Spans through the OpenTelemetry SDK, and the context that is read from and written to messages.

use std::{
    any::Any,
    cell::Cell,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};

use mcp_runtime::telemetry::{TraceCarrier, TraceContext, Unsampled};
use opentelemetry::{
    Context, ContextGuard,
    baggage::{BaggageExt as _, KeyValueMetadata},
    propagation::{Extractor, Injector, TextMapCompositePropagator, TextMapPropagator},
    trace::{
        SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
    },
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
    span::{Attributes, Id, Record},
};
use tracing_opentelemetry::{OpenTelemetrySpanExt as _, get_otel_context};
use tracing_subscriber::{
    filter::{LevelFilter, filter_fn},
    layer::{Context as LayerContext, Identity, Layer},
    registry::LookupSpan,
};

use crate::{
    Error,
    config::{Exporters, Propagators},
    exporter,
};

/// The propagators that the environment names. [`spans`] reports invalid names.
static PROPAGATOR: LazyLock<TextMapCompositePropagator> =
    LazyLock::new(|| propagator().unwrap_or_else(|_| TextMapCompositePropagator::new(Vec::new())));

fn propagator() -> Result<TextMapCompositePropagator, Error> {
    let Propagators { trace_context, baggage } = Propagators::from_env()?;
    let trace_context = trace_context.then(|| Box::new(TraceContextPropagator::new()) as _);
    let baggage = baggage.then(|| Box::new(BaggagePropagator::new()) as _);
    Ok(TextMapCompositePropagator::new(trace_context.into_iter().chain(baggage).collect()))
}

/// The destination of spans.
#[derive(Debug, Clone)]
pub(crate) enum Spans {
    /// With the sampler of the provider, which is asked before a span is created, and whether it samples new traces.
    Export(SdkTracerProvider, Arc<dyn ShouldSample>, bool),
    /// Spans are not exported; the context is propagated.
    Propagate,
    Off,
}

/// Returns the destination of the program's spans, which the environment sets.
pub(crate) fn spans() -> &'static Result<Spans, Error> {
    static SPANS: OnceLock<Result<Spans, Error>> = OnceLock::new();
    SPANS.get_or_init(|| {
        let exporters = Exporters::of("TRACES")?;
        propagator()?;
        if exporters.otlp {
            let provider = SdkTracerProvider::builder().with_resource(resource()).with_id_generator(Ids::default());
            let provider = provider.with_batch_exporter(exporter::spans()?).build();
            // The default reads the environment, as that of the provider does.
            return Ok(Spans::export(provider, Arc::from(Config::default().sampler)));
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
    /// `sampler` is one of [`Sampler`](opentelemetry_sdk::trace::Sampler), the sampler of the provider.
    pub(crate) fn export(provider: SdkTracerProvider, sampler: Arc<dyn ShouldSample>) -> Self {
        // The id that every ratio includes.
        let first = TraceId::from(1_u128);
        let result = sampler.should_sample(None, first, "", &SpanKind::Server, &[], &[]);
        Self::Export(provider, sampler, result.decision != SamplingDecision::Drop)
    }

    /// Returns the layer of the subscriber.
    pub(crate) fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        match self {
            Self::Export(provider, ..) => layer_with(provider.tracer("mcp-runtime")),
            // Its spans have the contexts of their parents.
            Self::Propagate => layer_with(opentelemetry::trace::noop::NoopTracer::new()),
            Self::Off => Identity::new().with_filter(LevelFilter::OFF).boxed(),
        }
    }

    /// Decides whether an operation is sampled. A span costs more than the rest of a call, and its attributes would be
    /// collected before the SDK decides.
    #[inline]
    pub(crate) fn unsampled(&self, trace: &TraceContext<'_>, is_measured: bool) -> Option<Unsampled> {
        match self {
            Self::Off => None,
            Self::Export(_, _, false) if trace.is_empty() && !has_context() => {
                Some(Unsampled::new(next_root(), enter_root, is_measured))
            }
            Self::Export(_, sampler, _) => unsampled(Some(&**sampler), trace, is_measured),
            Self::Propagate => unsampled(None, trace, is_measured),
        }
    }
}

/// Asks the sampler. Without one, no operation has a span.
#[inline(never)]
fn unsampled(sampler: Option<&dyn ShouldSample>, trace: &TraceContext<'_>, is_measured: bool) -> Option<Unsampled> {
    if !trace.is_empty() || has_context() {
        let context = unsampled_child(sampler, &parent(&trace.meta(), &trace.headers()))?;
        let mut unsampled = Unsampled::new(0, enter_context, is_measured);
        unsampled.context = Some(Arc::new(context));
        return Some(unsampled);
    }
    let Some(sampler) = sampler else {
        // An operation without a parent has no context.
        return Some(Unsampled::new(0, enter_context, is_measured));
    };
    let trace_id = sampled_root(sampler, None).err()?;
    Some(Unsampled::new(u128::from_be_bytes(trace_id.to_bytes()), enter_root, is_measured))
}

/// Decides about an operation whose parent may have no span. Returns its context if it is not sampled.
fn unsampled_child(sampler: Option<&dyn ShouldSample>, parent: &Context) -> Option<Context> {
    Some(match sampler {
        None => parent.clone(),
        Some(sampler) => {
            let parent_span = parent.span().span_context().clone();
            let mut trace_state = TraceState::default();
            let trace_id = if parent_span.is_valid() {
                let trace_id = parent_span.trace_id();
                let result = sampler.should_sample(Some(parent), trace_id, "", &SpanKind::Server, &[], &[]);
                if result.decision != SamplingDecision::Drop {
                    return None;
                }
                trace_state = result.trace_state;
                trace_id
            } else {
                sampled_root(sampler, Some(parent)).err()?
            };
            let span_id = RandomIdGenerator::default().new_span_id();
            parent.with_remote_span_context(SpanContext::new(
                trace_id,
                span_id,
                TraceFlags::default(),
                false,
                trace_state,
            ))
        }
    })
}

/// Decides about the first span of a new trace.
///
/// # Errors
///
/// Returns the id of the trace if it is not sampled.
fn sampled_root(sampler: &dyn ShouldSample, parent: Option<&Context>) -> Result<(), TraceId> {
    let trace_id = RandomIdGenerator::default().new_trace_id();
    if sampler.should_sample(parent, trace_id, "", &SpanKind::Server, &[], &[]).decision == SamplingDecision::Drop {
        return Err(trace_id);
    }
    NEXT_TRACE.set(Some(trace_id));
    Ok(())
}

thread_local! {
    static NEXT_ROOT: Cell<u128> = Cell::new(u128::from_be_bytes(RandomIdGenerator::default().new_trace_id().to_bytes()) | 1);
    /// The trace of the operation on the thread that is not sampled and has no parent, or else 0.
    static ROOT: Cell<u128> = const { Cell::new(0) };
    /// Its context, which is created when something asks for it: that costs more than the decision.
    static CONTEXT: Cell<Option<ContextGuard>> = const { Cell::new(None) };
    /// Whether the operation has a context.
    static HAS_CONTEXT: Cell<bool> = const { Cell::new(false) };
}

/// Returns the id of a trace without spans. Each thread has its own sequence, which starts at a random number: the
/// multiplicative congruential generator of L'Ecuyer, whose upper half passes statistical tests and becomes the lower half of
/// the id, which samplers use. It takes half the instructions of [`RandomIdGenerator`].
fn next_root() -> u128 {
    NEXT_ROOT.with(|next| {
        let root = next.get();
        next.set(root.wrapping_mul(0xda94_2042_e4dd_58b5));
        root.rotate_left(64)
    })
}

/// Enters the context of an operation that has a parent.
fn enter_context(operation: &Unsampled) -> Box<dyn Any> {
    let context = operation.context.as_ref().and_then(|context| context.downcast_ref::<Context>());
    Box::new(context.map(|context| context.clone().attach()))
}

fn enter_root(&Unsampled { id: trace, .. }: &Unsampled) -> Box<dyn Any> {
    match ROOT.replace(trace) {
        0 => Box::new(InRoot),
        root if root == trace => Box::new(()),
        outer => enter_nested_root(outer),
    }
}

/// Enters an operation that a function of another operation polls.
#[cold]
fn enter_nested_root(outer: u128) -> Box<dyn Any> {
    let outer = Restore(outer, HAS_CONTEXT.take(), CONTEXT.take());
    Box::new(InNestedRoot { _inner: InRoot, _empty: Context::new().attach(), _outer: outer })
}

/// Leaves the operation when dropped. Without a size, so that the box does not allocate.
struct InRoot;

impl Drop for InRoot {
    fn drop(&mut self) {
        ROOT.set(0);
        if HAS_CONTEXT.take() {
            drop(CONTEXT.take());
        }
    }
}

/// Leaves an inner operation when dropped.
struct InNestedRoot {
    _inner: InRoot,
    /// Hides the context of the outer operation.
    _empty: ContextGuard,
    _outer: Restore,
}

struct Restore(u128, bool, Option<ContextGuard>);

impl Drop for Restore {
    fn drop(&mut self) {
        ROOT.set(self.0);
        HAS_CONTEXT.set(self.1);
        CONTEXT.set(self.2.take());
    }
}

/// Returns the current context, after creating that of the operation.
fn current() -> Context {
    has_context();
    Context::current()
}

/// Returns whether the current context has contents, after creating that of the operation.
#[inline]
fn has_context() -> bool {
    match ROOT.get() {
        root if root != 0 && !HAS_CONTEXT.get() => create_context(root),
        _ => Context::map_current(|context| context.has_active_span() || !context.baggage().is_empty()),
    }
}

#[cold]
fn create_context(trace: u128) -> bool {
    if !Context::map_current(Context::has_active_span) {
        // The span is the same whenever the operation is entered.
        let (trace_id, span_id) = (TraceId::from(trace), SpanId::from((trace as u64).rotate_left(32) | 1));
        let own = SpanContext::new(trace_id, span_id, TraceFlags::default(), false, TraceState::default());
        CONTEXT.set(Some(Context::current().with_remote_span_context(own).attach()));
        HAS_CONTEXT.set(true);
    }
    true
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
    let layer = InOperation.and_then(layer).and_then(Rename);
    // Events of level `error` would mark spans of successful calls as failed.
    let spans = filter_fn(|metadata| match metadata.target() {
        UNSAMPLED | CALLER => false,
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
/// The target of its spans that name users to the log.
const CALLER: &str = "mcp_runtime::request::caller";
/// The target of its spans of functions and layers, whose level is `debug`.
const CALL: &str = "mcp_runtime::call";

/// Creates the context of an operation that is not sampled before its first span, which then is not sampled either. Drops the
/// id of a trace whose first span a filter has disabled: it would decide about the next trace of the thread.
struct InOperation;

impl<S: Subscriber> Layer<S> for InOperation {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        if attributes.metadata().target() != OPERATION {
            NEXT_TRACE.set(None);
        }
        has_context();
    }
}

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
        return current();
    }
    // Baggage alone must not cut the span off from the span around it.
    let sent = extract(sent);
    let members = sent
        .baggage()
        .iter()
        .map(|(key, (value, metadata))| KeyValueMetadata::new(key.clone(), value.clone(), metadata.clone()));
    current().with_baggage(members)
}

/// Sets the parent of a span from the context of its message, and links the contexts that are not its parent.
pub(crate) fn span_created(span: &Span, trace: &TraceContext<'_>) {
    let (meta, headers) = (trace.meta(), trace.headers());
    if !meta.is_empty() || !headers.is_empty() {
        let parent = parent(&meta, &headers);
        let parent_span = parent.span().span_context().clone();
        let ambient = current().span().span_context().clone();
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
    if context.span().span_context().is_valid() { context } else { current() }
}

/// Returns the context of a span, as the `_meta` of a message carries it.
pub(crate) fn inject(span: &Span) -> TraceCarrier<'static> {
    let mut carrier = TextCarrier(TraceCarrier::default());
    PROPAGATOR.inject_context(&context_of(span), &mut carrier);
    carrier.0
}

/// Returns the HTTP headers that hand the trace of the running call on to another service: `traceparent`, `tracestate`
/// and `baggage`. Outside of a call, those of the context that the program has attached, which is empty by default.
///
/// ```
/// # async fn price(client: reqwest::Client, item: &str) -> reqwest::Result<String> {
/// let request = client.get(format!("https://prices.example.com/{item}")).headers(mcp_otel::headers());
/// request.send().await?.text().await
/// # }
/// ```
pub fn headers() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    PROPAGATOR.inject_context(&current(), &mut HeaderInjector(&mut headers));
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

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::Sampler;

    use super::*;

    fn enter(id: u128) -> Box<dyn Any> {
        enter_root(&Unsampled::new(id, enter_root, false))
    }

    /// The trace of the current context, or else 0.
    fn trace() -> u128 {
        u128::from_be_bytes(current().span().span_context().trace_id().to_bytes())
    }

    #[test]
    fn an_operation_continues_after_one_that_its_function_polls() {
        for has_context in [false, true] {
            let outer = enter(1);
            if has_context {
                assert_eq!(trace(), 1);
            }
            let inner = enter(2);
            assert_eq!(trace(), 2, "{has_context}");
            drop(inner);
            assert_eq!(trace(), 1, "{has_context}");
            drop(outer);
            assert_eq!(trace(), 0, "{has_context}");
        }
    }

    #[test]
    fn the_sampler_decides_before_there_is_a_span() {
        let own = SpanContext::new(2_u128.into(), 2_u64.into(), TraceFlags::SAMPLED, true, TraceState::default());
        for (sampler, samples_roots, samples_children) in [
            (Sampler::AlwaysOn, true, true),
            (Sampler::AlwaysOff, false, false),
            (Sampler::ParentBased(Box::new(Sampler::AlwaysOff)), false, true),
        ] {
            let samples = || unsampled(Some(&sampler), &TraceContext::default(), false).is_none();
            assert_eq!(samples(), samples_roots, "{sampler:?}");
            let _attached = Context::new().with_remote_span_context(own.clone()).attach();
            assert_eq!(samples(), samples_children, "{sampler:?}");
        }
    }

    #[test]
    fn a_context_that_a_function_attaches_is_kept() {
        let _operation = enter(1);
        let own = SpanContext::new(2_u128.into(), 2_u64.into(), TraceFlags::default(), true, TraceState::default());
        let _attached = Context::new().with_remote_span_context(own).attach();
        assert_eq!(trace(), 2);
    }
}
