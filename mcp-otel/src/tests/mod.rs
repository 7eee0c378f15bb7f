//! Tests of exported spans and measurements. `tests/otel/run` compares more of them with the conventions.

mod configuration;
mod measurements;

use std::sync::{
    Arc, LazyLock, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_runtime::{
    Elicit, Fault, HttpOptions, Revision, Server, ToolResult, ask::Answer, layers::LogCalls, prompt,
    testing::TestClient, tool,
};
use opentelemetry::{
    baggage::BaggageExt as _,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceId},
};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, SdkMeterProvider,
        data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics},
    },
    trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData},
};
use serde_json::{Value, json};
use tracing::{
    Dispatch, Instrument as _,
    field::{Field, Visit},
    span::{Id, Record},
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Registry,
    filter::filter_fn,
    layer::{Context, Layer, SubscriberExt as _},
};

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Returns the context for another service, or fails.
#[tool]
async fn hand_on(fails: bool) -> Result<String, &'static str> {
    tokio::task::yield_now().await;
    if fails {
        return Err("cannot");
    }
    Ok(tracing::info_span!("inner").in_scope(handed_on))
}

/// Return the context for another service, on a thread.
#[tool(blocking)]
fn hand_on_blocking() -> String {
    handed_on()
}

/// Return the context for another service, in place.
#[tool]
fn hand_on_directly() -> String {
    handed_on()
}

/// Return the context for another service, which is the same whenever the function continues.
#[tool]
async fn hand_on_twice() -> String {
    let first = handed_on();
    tokio::task::yield_now().await;
    assert_eq!(first, handed_on());
    first
}

/// Return the state of the trace.
#[tool]
fn hand_on_state() -> String {
    headers().get("tracestate").and_then(|state| state.to_str().ok()).unwrap_or("none").to_owned()
}

fn handed_on() -> String {
    let headers = headers();
    assert!(headers.get("tracestate").is_none_or(|state| !state.is_empty()));
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
    format!("{} {}", header("traceparent"), header("baggage"))
}

fn otel(spans: trace::Spans) -> Otel {
    Otel {
        names_users: false,
        spans,
        metrics: None,
        #[cfg(feature = "prometheus")]
        prometheus: None,
    }
}

fn export(sampler: Sampler) -> (InMemorySpanExporter, trace::Spans) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_sampler(sampler.clone()).with_id_generator(trace::Ids::default());
    let provider = provider.with_simple_exporter(exporter.clone()).build();
    (exporter, trace::Spans::export(provider, Arc::new(sampler)))
}

fn client(server: Server) -> TestClient {
    let server = server.with::<hand_on>().with::<hand_on_blocking>().with::<hand_on_directly>().with::<hand_on_twice>();
    server.with::<hand_on_state>().test_client(Revision::V2026_07_28)
}

async fn call(client: &mut TestClient, arguments: Value) -> Value {
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "baggage": "user=ada"});
    client.request("tools/call", json!({"name": "hand_on", "arguments": arguments, "_meta": meta})).await.unwrap()
}

/// Sets the subscriber of the thread.
///
/// As long as there is only one subscriber, `tracing` asks the subscriber of whichever thread reaches a span first, so that
/// another test without one would disable the span for all of them.
fn listen(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    tracing::dispatcher::set_default(&subscriber.into())
}

fn attribute<'a>(span: &'a SpanData, name: &str) -> Option<std::borrow::Cow<'a, str>> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == name).map(|attribute| attribute.value.as_str())
}

#[tokio::test]
async fn a_span_continues_the_trace_of_the_client() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let subscriber = tracing_subscriber::registry().with(spans.layer());
    let _guard = listen(subscriber);
    let contents = RecordContents::new(14).redact(|_, json| json.replace("false", "0"));
    let telemetry = otel(spans);
    let mut client =
        client(Server::empty("spans", "1.0.0").telemetry(telemetry).layer(contents).layer(LogCalls::new()));
    let result = call(&mut client, json!({"fails": false})).await;
    call(&mut client, json!({"fails": true})).await;

    let spans = exporter.get_finished_spans().unwrap();
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "tools/call hand_on").collect();
    let [succeeded, failed] = *calls else { panic!("{spans:?}") };
    for span in [succeeded, failed] {
        // The access log names the user, and stays in the log.
        assert_eq!(span.events.len(), 0);
        assert_eq!(span.span_kind, SpanKind::Server);
        assert_eq!(span.span_context.trace_id().to_string(), TRACE);
        assert_eq!(span.parent_span_id.to_string(), PARENT);
        assert_eq!(span.links.len(), 0);
    }
    let inner = spans.iter().find(|span| span.name == "inner").unwrap();
    let mut parent = succeeded;
    for name in [
        "layer mcp_otel::contents::RecordContents",
        "layer mcp_runtime::layers::log_calls::LogCalls",
        "function hand_on",
        "inner",
    ] {
        let child = spans.iter().find(|span| span.parent_span_id == parent.span_context.span_id()).unwrap();
        assert_eq!(child.name, name);
        parent = child;
    }
    let handed_on = format!("00-{TRACE}-{}-01 user=ada", inner.span_context.span_id());
    assert_eq!(result["content"][0]["text"], handed_on);
    assert_eq!((&succeeded.status, attribute(succeeded, "error.type")), (&Status::Unset, None));
    assert!(matches!(failed.status, Status::Error { .. }), "{failed:?}");
    assert_eq!(attribute(failed, "error.type").as_deref(), Some("tool_error"));
    assert_eq!(attribute(succeeded, "gen_ai.tool.call.arguments").as_deref(), Some(r#"{"fails":0}"#));
    assert_eq!(attribute(failed, "gen_ai.tool.call.arguments").as_deref(), Some(r#"{"fails":true}"#));
    assert_eq!(attribute(succeeded, "gen_ai.tool.call.result").map(|text| text.len()), Some(14));
}

/// Describe something.
#[prompt]
fn describe(what: String) -> String {
    what
}

/// Contents that are too long are truncated at a character boundary. Contents of prompts are never recorded.
#[tokio::test]
async fn only_contents_of_tools_are_recorded_and_truncated() {
    for (max_bytes, text, recorded) in [
        (3, "ab", "ab"),
        (3, "abcd", "abc"),
        (3, "ää", "ä"),
        (3, "aää", "aä"),
        (3, "𝄞", ""),
        (usize::MAX, "abcd", "abcd"),
    ] {
        let (exporter, spans) = export(Sampler::AlwaysOn);
        let _guard = listen(Registry::default().with(spans.layer()));
        let contents = RecordContents::new(max_bytes).redact(move |_, _| text.to_owned());
        let server = Server::empty("contents", "1.0.0").with::<describe>().telemetry(otel(spans)).layer(contents);
        let mut client = client(server);
        client.call("hand_on_directly", ()).await.unwrap();
        client.prompt("describe", json!({"what": "it"})).await.unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        for (name, expected) in [("tools/call hand_on_directly", Some(recorded)), ("prompts/get describe", None)] {
            let span = spans.iter().find(|span| span.name == name).unwrap();
            for content in ["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"] {
                assert_eq!(attribute(span, content).as_deref(), expected, "{name} {content} {text}");
            }
        }
    }
}

/// Return an error as a result.
#[tool]
fn refuse() -> ToolResult {
    ToolResult::error("the account of Ada is closed")
}

#[tokio::test]
async fn of_failed_calls_only_arguments_are_recorded() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let server = Server::empty("failures", "1.0.0").with::<refuse>().telemetry(otel(spans));
    let mut client = client(server.layer(RecordContents::new(100)));
    client.call("refuse", ()).await.unwrap();
    call(&mut client, json!({"fails": true})).await;
    let spans = exporter.get_finished_spans().unwrap();
    for name in ["tools/call refuse", "tools/call hand_on"] {
        let span = spans.iter().find(|span| span.name == name).unwrap();
        let is_recorded = |part: &str| attribute(span, &format!("gen_ai.tool.call.{part}")).is_some();
        assert_eq!(["arguments", "result"].map(is_recorded), [true, false], "{name}");
    }
}

/// The span that names the user to the log stays in the log.
#[tokio::test]
async fn exported_spans_name_users_only_by_an_option() {
    for names_users in [false, true] {
        let (exporter, spans) = export(Sampler::AlwaysOn);
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
        let _guard = listen(Registry::default().with(log).with(spans.layer()));
        let telemetry = if names_users { otel(spans).name_users() } else { otel(spans) };
        let client = client(Server::empty("users", "1.0.0").telemetry(telemetry));
        let mut client = client.with_extension(mcp_runtime::auth::Principal::new("ada"));
        call(&mut client, json!({"fails": false})).await;
        let spans = exporter.get_finished_spans().unwrap();
        let span = spans.iter().find(|span| span.name == "tools/call hand_on").unwrap();
        assert_eq!(span.parent_span_id.to_string(), PARENT);
        let names: Vec<_> = spans.iter().filter_map(|span| attribute(span, "enduser.id")).collect();
        assert_eq!(names.contains(&"ada".into()), names_users, "{spans:?}");
        assert!(!spans.iter().any(|span| span.name == "mcp.caller"), "{spans:?}");
    }
}

/// Whether to go on.
#[derive(Elicit)]
struct Sure {
    sure: bool,
}

/// Ask the user.
#[tool]
async fn ask(ctx: &mcp_runtime::Context) -> Result<bool, Fault> {
    let answer = ctx.elicit::<Sure>("sure", "Are you sure?").await?;
    Ok(matches!(answer, Answer::Accept(Sure { sure: true })))
}

#[tokio::test]
async fn the_span_around_a_request_is_its_parent_or_a_link() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let mut client = client(Server::empty("ambient", "1.0.0").telemetry(otel(spans)));
    for (has_context, baggage) in [(false, None), (false, Some("user=ada")), (true, None)] {
        exporter.reset();
        let traceparent = has_context.then(|| format!("00-{TRACE}-{PARENT}-01"));
        let meta = json!({"traceparent": traceparent, "baggage": baggage});
        let params = json!({"name": "hand_on", "arguments": {"fails": false}, "_meta": meta});
        client.request("tools/call", params).instrument(tracing::info_span!("http")).await.unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        let [http, call] = ["http", "tools/call hand_on"].map(|name| spans.iter().find(|it| it.name == name).unwrap());
        let links: Vec<_> = call.links.iter().map(|link| link.span_context.span_id()).collect();
        let around = http.span_context.span_id();
        if has_context {
            assert_eq!((call.parent_span_id.to_string(), links), (PARENT.to_owned(), vec![around]));
        } else {
            assert_eq!((call.parent_span_id, links), (around, vec![]));
        }
    }
}

/// The context in `_meta` comes first. That in the headers is a link if it differs.
#[tokio::test]
async fn the_context_in_the_headers_is_the_parent_or_a_link() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let server = Server::empty("headers", "1.0.0").telemetry(otel(spans)).with::<hand_on>().build().unwrap();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let (none, other) = ("0000000000000000", "00f067aa0ba902b7");
    let [own_context, other_context] = [PARENT, other].map(|span| format!("00-{TRACE}-{span}-01"));
    for (meta, header, parent, links, baggage) in [
        (json!({}), ("traceparent", &*own_context), PARENT, vec![], "none"),
        (json!({"traceparent": own_context}), ("traceparent", &own_context), PARENT, vec![], "none"),
        (json!({"traceparent": own_context}), ("traceparent", &other_context), PARENT, vec![other.to_owned()], "none"),
        (json!({}), ("baggage", "user=ada"), none, vec![], "user=ada"),
        (json!({"baggage": "user=eve"}), ("baggage", "user=ada"), none, vec![], "user=eve"),
    ] {
        exporter.reset();
        let client = TestClient::over_http(service.clone(), "/", Revision::V2026_07_28);
        let params = json!({"name": "hand_on", "arguments": {"fails": false}, "_meta": meta});
        let result = client.with_header(header.0, header.1).request("tools/call", params).await.unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        let call = spans.iter().find(|span| span.name == "tools/call hand_on").unwrap();
        let found: Vec<_> = call.links.iter().map(|link| link.span_context.span_id().to_string()).collect();
        assert_eq!((&*call.parent_span_id.to_string(), found), (parent, links), "{meta} {header:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("-01 {baggage}")), "{meta} {header:?} {text}");
    }
}

#[tokio::test]
async fn a_question_carries_the_context_of_its_span() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let client = Server::empty("questions", "1.0.0").with::<ask>().telemetry(otel(spans));
    let client = client.test_client(Revision::V2025_11_25);
    let (sender, sent) = std::sync::mpsc::channel();
    let mut client = client.answering(move |question| {
        sender.send(question.params["_meta"].clone()).unwrap();
        json!({"action": "accept", "content": {"sure": true}})
    });
    assert_eq!(client.call("ask", ()).await.unwrap().text(), "true");
    let spans = exporter.get_finished_spans().unwrap();
    let span = &spans.iter().find(|span| span.span_kind == SpanKind::Client).unwrap().span_context;
    let traceparent = format!("00-{}-{}-01", span.trace_id(), span.span_id());
    assert_eq!(sent.recv().unwrap(), json!({"traceparent": traceparent}));
}

/// In stateless revisions, the request with the answers is another one, perhaps of another trace.
#[tokio::test]
async fn the_rounds_of_a_conversation_are_linked() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let server = Server::empty("rounds", "1.0.0").with::<ask>().telemetry(otel(spans));
    let client = server.test_client(Revision::V2026_07_28);
    let mut client = client.answering(|_| json!({"action": "accept", "content": {"sure": true}}));
    assert_eq!(client.call("ask", ()).await.unwrap().text(), "true");
    let spans = exporter.get_finished_spans().unwrap();
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "tools/call ask").collect();
    let [first, second] = *calls else { panic!("{spans:?}") };
    let links: Vec<_> = second.links.iter().map(|link| &link.span_context).collect();
    assert_eq!(first.links.len(), 0);
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].span_id(), first.span_context.span_id());
    assert_eq!(links[0].trace_id(), first.span_context.trace_id());
}

#[tokio::test]
async fn without_spans_the_context_of_the_client_is_handed_on() {
    let subscriber = tracing_subscriber::registry().with(trace::Spans::Propagate.layer());
    let _guard = listen(subscriber);
    let mut client = client(Server::empty("noop", "1.0.0").telemetry(otel(trace::Spans::Propagate)));
    let result = call(&mut client, json!({"fails": false})).await;
    assert_eq!(result["content"][0]["text"], format!("00-{TRACE}-{PARENT}-01 user=ada"));
}

/// Returns a context that the program has, with baggage.
fn around() -> opentelemetry::Context {
    let span = SpanContext::new(
        TraceId::from_hex(TRACE).unwrap(),
        SpanId::from_hex(PARENT).unwrap(),
        opentelemetry::TraceFlags::SAMPLED,
        true,
        opentelemetry::trace::TraceState::default(),
    );
    let context = opentelemetry::Context::new().with_remote_span_context(span);
    context.with_baggage([opentelemetry::KeyValue::new("user", "ada")])
}

#[tokio::test]
async fn operations_that_are_not_sampled_have_a_trace_of_their_own_or_that_around_them() {
    let (_, spans) = export(Sampler::AlwaysOff);
    let _guard = listen(Registry::default().with(spans.layer()));
    let mut client = client(Server::empty("sampled", "1.0.0").telemetry(otel(spans)));
    let [first, second] = [client.call("hand_on_directly", ()).await, client.call("hand_on_directly", ()).await];
    let (first, second) = (first.unwrap().text(), second.unwrap().text());
    assert_ne!(first[..35], second[..35]);
    let _attached = around().attach();
    let text = client.call("hand_on_directly", ()).await.unwrap().text();
    assert!(text.starts_with(&format!("00-{TRACE}-")) && !text.contains(PARENT), "{text}");
    assert!(text.ends_with("-00 user=ada"), "{text}");
}

#[test]
fn without_spans_and_propagation_no_context_is_handed_on() {
    let _attached = around().attach();
    let handed_on = |spans| otel(spans).inject(&Span::none());
    assert_eq!(handed_on(trace::Spans::Off), TraceCarrier::default());
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(handed_on(trace::Spans::Propagate).traceparent.as_deref(), Some(&*traceparent));
}

#[tokio::test]
async fn the_state_of_a_trace_is_handed_on() {
    for (sampler, flags) in [(Sampler::AlwaysOn, "01"), (Sampler::ParentBased(Box::new(Sampler::AlwaysOn)), "00")] {
        let (_, spans) = export(sampler);
        let _guard = listen(Registry::default().with(spans.layer()));
        let mut client = client(Server::empty("state", "1.0.0").telemetry(otel(spans)));
        let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-{flags}"), "tracestate": "vendor=1"});
        let params = json!({"name": "hand_on_state", "arguments": {}, "_meta": meta});
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "vendor=1", "{flags}");
    }
}

#[test]
fn a_span_can_be_renamed_after_it_was_entered() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    let new = || tracing::info_span!("span", otel.name = tracing::field::Empty, other = tracing::field::Empty);
    let [text, value] = [new(), new()];
    for span in [&text, &value] {
        span.in_scope(|| ());
    }
    text.record("otel.name", "text");
    value.record("otel.name", tracing::field::display("value"));
    value.record("other", tracing::field::display("x"));
    drop(text);
    drop(value);
    let names: Vec<_> = exporter.get_finished_spans().unwrap().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["text", "value"]);
}

/// Spans of libraries often describe details at this level.
#[test]
fn spans_of_level_debug_are_not_exported() {
    let (exporter, spans) = export(Sampler::AlwaysOn);
    let _guard = listen(Registry::default().with(spans.layer()));
    tracing::debug_span!("detail").in_scope(|| ());
    tracing::info_span!("step").in_scope(|| ());
    let names: Vec<_> = exporter.get_finished_spans().unwrap().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["step"]);
}

/// The exporter of batches would otherwise wait for more spans, beyond the end of the program.
#[test]
fn spans_are_exported_at_the_end_of_a_server() {
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter.clone()).build();
    provider.tracer("test").start("last").end();
    drop(otel(trace::Spans::export(provider.clone(), Arc::new(Sampler::AlwaysOn))));
    assert_eq!(exporter.get_finished_spans().unwrap().len(), 1);
    drop(provider);
}

/// Collects the field `trace_id` of spans, as a log does.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Layer<Registry> for Log {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, Registry>) {
        struct TraceId<'a>(&'a Log);
        impl Visit for TraceId<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "trace_id" {
                    self.0.0.lock().unwrap().push(format!("{value:?}"));
                }
            }
        }
        values.record(&mut TraceId(self));
    }
}

#[tokio::test]
async fn the_log_names_no_trace_without_propagation_or_context() {
    for (spans, context) in [(trace::Spans::Off, Some(around())), (trace::Spans::Propagate, None)] {
        let log = Log::default();
        let _guard = listen(Registry::default().with(log.clone()).with(spans.layer()));
        let _attached = context.map(opentelemetry::Context::attach);
        let mut client = client(Server::empty("log", "1.0.0").telemetry(otel(spans.clone())));
        client.call("hand_on_directly", ()).await.unwrap();
        assert_eq!(*log.0.lock().unwrap(), [""; 0], "{spans:?}");
    }
}

#[tokio::test]
async fn operations_that_are_not_sampled_have_no_spans_and_hand_their_context_on() {
    let parent_based = |root| Sampler::ParentBased(Box::new(root));
    for (sampler, flags, is_sampled) in [
        (parent_based(Sampler::AlwaysOn), Some("00"), false),
        (parent_based(Sampler::AlwaysOff), Some("01"), true),
        (parent_based(Sampler::AlwaysOff), None, false),
        (parent_based(Sampler::TraceIdRatioBased(1.0)), None, true),
        (Sampler::AlwaysOff, Some("01"), false),
        (Sampler::AlwaysOn, Some("00"), true),
        (Sampler::TraceIdRatioBased(0.0), None, false),
    ] {
        for (tool, is_logged, baggage) in [
            ("hand_on", false, "user=ada"),
            ("hand_on", false, "none"),
            ("hand_on", true, "user=ada"),
            ("hand_on", true, "none"),
            ("hand_on_blocking", false, "user=ada"),
            ("hand_on_blocking", false, "none"),
            ("hand_on_directly", false, "user=ada"),
            ("hand_on_directly", false, "none"),
            ("hand_on_twice", false, "none"),
        ] {
            let (exporter, spans) = export(sampler.clone());
            let log = Log::default();
            let subscriber = Registry::default().with(is_logged.then(|| log.clone())).with(spans.layer());
            let _guard = listen(subscriber);
            let mut client = client(Server::empty("sampled", "1.0.0").telemetry(otel(spans)));
            let arguments = if tool == "hand_on" { json!({"fails": false}) } else { json!({}) };
            let mut params = json!({"name": tool, "arguments": arguments, "_meta": {}});
            if baggage != "none" {
                params["_meta"]["baggage"] = baggage.into();
            }
            if let Some(flags) = flags {
                params["_meta"]["traceparent"] = format!("00-{TRACE}-{PARENT}-{flags}").into();
            }
            let text = client.request("tools/call", params).await.unwrap()["content"][0]["text"].take();
            let case = format!("{sampler:?} {flags:?} {tool}: {text}");
            let [_, trace, span, flags_and_baggage] = *text.as_str().unwrap().splitn(4, '-').collect::<Vec<_>>() else {
                panic!("{case}")
            };
            assert_eq!(flags_and_baggage, format!("0{} {baggage}", u8::from(is_sampled)), "{case}");
            assert_eq!(trace == TRACE, flags.is_some(), "{case}");
            assert_ne!(span, PARENT, "{case}");
            assert!(!opentelemetry::Context::current().has_active_span(), "{case}");
            assert_eq!(!exporter.get_finished_spans().unwrap().is_empty(), is_sampled, "{case}");
            assert_eq!(log.0.lock().unwrap().contains(&trace.to_owned()), is_logged, "{case}");
        }
    }
}

/// The decision before a span is created is that of the SDK: it would otherwise export a fourth.
#[tokio::test]
async fn half_of_the_traces_are_sampled() {
    let (exporter, spans) = export(Sampler::TraceIdRatioBased(0.5));
    let _guard = listen(Registry::default().with(spans.layer()));
    let mut client = client(Server::empty("sampled", "1.0.0").telemetry(otel(spans)));
    for _ in 0..400 {
        client.request("tools/call", json!({"name": "hand_on", "arguments": {"fails": false}})).await.unwrap();
    }
    let count = exporter.get_finished_spans().unwrap().iter().filter(|span| span.name == "inner").count();
    assert!((150..250).contains(&count), "{count}");
}

/// The id of a sampled request would otherwise decide about the next trace of the thread.
#[tokio::test]
async fn requests_whose_spans_are_filtered_do_not_affect_other_traces() {
    for is_logged in [false, true] {
        let (exporter, spans) = export(Sampler::TraceIdRatioBased(0.5));
        let filter = filter_fn(|metadata| !metadata.target().starts_with("mcp_runtime"));
        let log = is_logged.then(|| tracing_subscriber::fmt::layer().with_writer(std::io::sink));
        let _guard = listen(Registry::default().with(log).with(spans.layer().with_filter(filter)));
        let mut client = client(Server::empty("filtered", "1.0.0").telemetry(otel(spans)));
        for _ in 0..400 {
            client.request("tools/call", json!({"name": "hand_on_directly", "arguments": {}})).await.unwrap();
            tracing::info_span!("unrelated").in_scope(|| ());
        }
        let count = exporter.get_finished_spans().unwrap().iter().filter(|span| span.name == "unrelated").count();
        assert!((150..250).contains(&count), "{is_logged}: {count}");
    }
}
