//! Spans and measurements: the names of the semantic conventions for MCP, and that each operation is recorded once.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_runtime::{
    Context, Elicit, Fault, HttpOptions, Revision, Server,
    ask::Answer,
    auth::{Identity, Principal},
    backend::MemoryBackend,
    function::MethodEntry,
    layers::{Call, Next, Outcome, from_fn},
    prompt, resource,
    telemetry::{
        BackendOperation, EnterContext, Network, Operation, SessionEnd, Stat, Stats, StreamEnd, Telemetry,
        TraceCarrier, TraceContext,
    },
    testing::{RpcError, TestClient},
    tool,
};
use serde_json::{Value, json};
use tracing::{
    Span, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    layer::{Context as LayerContext, Layer, SubscriberExt},
    registry::LookupSpan,
};

use crate::layers::log::set_default;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Everything that a server has recorded, as `side method name version network error code`.
#[derive(Debug, Default)]
struct Recorder {
    operations: Mutex<Vec<String>>,
    traces: Mutex<Vec<String>>,
    streams: Mutex<Vec<&'static str>>,
    names_users: bool,
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

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.operations.lock().unwrap())
    }
}

fn network(network: Network) -> String {
    let Network { transport, protocol_name, protocol_version, .. } = network;
    [Some(transport), protocol_name, protocol_version].into_iter().flatten().collect::<Vec<_>>().join("/")
}

impl Telemetry for Recorder {
    fn span_created(&self, span: &Span, trace: &TraceContext<'_>) {
        span.record("trace_id", "recorded");
        let fields = |carrier: &TraceCarrier<'_>| {
            let fields = TraceCarrier::KEYS.into_iter().filter_map(|key| Some(format!("{key}={}", carrier.get(key)?)));
            fields.collect::<Vec<_>>().join(" ")
        };
        self.traces.lock().unwrap().push(format!("[{}] [{}]", fields(&trace.meta()), fields(&trace.headers())));
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
}

type Fields = BTreeMap<String, String>;

/// The spans that have ended, each with its name in the field `span`.
#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<Fields>>>);

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
    async fn take(&self, name: &str, method: &str) -> Fields {
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

/// Add two numbers.
#[tool]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

/// Add two numbers later.
#[tool]
async fn add_later(a: f64, b: f64) -> f64 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    a + b
}

/// Fail.
#[tool]
fn fails() -> Result<(), &'static str> {
    Err("secret")
}

/// Refuse.
#[tool]
async fn refuses() -> Result<(), Fault> {
    tokio::task::yield_now().await;
    Err(Fault::custom(4003, "the vault opens at nine"))
}

/// Panic.
#[tool]
fn panics() {
    panic!("boo")
}

/// Panic later.
#[tool]
async fn panics_later() {
    tokio::task::yield_now().await;
    panic!("boo")
}

/// Panic on a thread.
#[tool(blocking)]
fn panics_blocking() {
    panic!("boo")
}

/// Take too long.
#[tool(timeout = "5ms")]
async fn slow() {
    std::future::pending().await
}

/// Wait.
#[tool]
async fn waits() {
    std::future::pending().await
}

/// Run as a task.
#[tool(task)]
async fn runs(fails: bool) -> Result<(), &'static str> {
    tokio::task::yield_now().await;
    if fails { Err("secret") } else { Ok(()) }
}

/// Whether to go on.
#[derive(Elicit)]
struct Sure {
    sure: bool,
}

/// Ask.
#[tool]
async fn asks(ctx: &Context) -> Result<bool, Fault> {
    let answer = ctx.elicit::<Sure>("sure", "Are you sure?").await?;
    Ok(matches!(answer, Answer::Accept(Sure { sure: true })))
}

/// A note.
#[resource("notes://{id}")]
fn note(id: u8) -> Option<String> {
    (id < 10).then(|| "text".to_owned())
}

/// Summarize.
#[prompt]
fn summary(topic: Option<String>) -> String {
    topic.unwrap_or_default()
}

async fn search(_: Value, _: Context) -> Result<Value, Fault> {
    Ok(json!({"found": []}))
}

fn server(recorder: &Arc<Recorder>) -> Server {
    let server = Server::empty("measured", "1.0.0")
        .with::<add>()
        .with::<add_later>()
        .with::<fails>()
        .with::<refuses>()
        .with::<panics>()
        .with::<panics_later>()
        .with::<panics_blocking>()
        .with::<slow>()
        .with::<waits>()
        .with::<runs>()
        .with::<asks>()
        .with::<note>()
        .with::<summary>()
        .with_entry(MethodEntry::new("com.example/search", json!({"type": "object"}), search))
        .telemetry(Arc::clone(recorder));
    let _ = server.handle();
    server
}

const TRANSPORTS: [&str; 2] = ["pipe", "tcp/http/1.1"];

fn client(server: Server, transport: &str, revision: Revision) -> TestClient {
    if transport == "pipe" {
        return server.test_client(revision);
    }
    let service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    TestClient::over_http(service, "/", revision)
}

/// Requests with every method: the method, the parameters, and the name of the tool or prompt if the server has it.
fn requests() -> Vec<(&'static str, Value, Option<&'static str>)> {
    vec![
        ("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}}), Some("add")),
        ("tools/call", json!({"name": "add", "arguments": {"a": "x"}}), Some("add")),
        ("tools/call", json!({"name": "add_later", "arguments": {"a": 1, "b": 2}}), Some("add_later")),
        ("tools/call", json!({"name": "fails"}), Some("fails")),
        ("tools/call", json!({"name": "refuses"}), Some("refuses")),
        ("tools/call", json!({"name": "unknown"}), None),
        ("tools/call", json!({"arguments": {}}), None),
        ("tools/list", json!({}), None),
        ("tools/list", json!({"cursor": "invalid"}), None),
        ("resources/read", json!({"uri": "notes://1"}), None),
        ("resources/read", json!({"uri": "notes://11"}), None),
        ("resources/list", json!({}), None),
        ("resources/templates/list", json!({}), None),
        ("resources/subscribe", json!({"uri": "notes://1"}), None),
        ("resources/unsubscribe", json!({"uri": "notes://1"}), None),
        ("resources/directory/read", json!({"uri": "skill://x"}), None),
        ("prompts/get", json!({"name": "summary"}), Some("summary")),
        ("prompts/get", json!({"name": "unknown"}), None),
        ("prompts/list", json!({}), None),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "unknown"}, "argument": {"name": "topic", "value": ""}}),
            None,
        ),
        ("ping", json!({}), None),
        ("initialize", json!({}), None),
        ("server/discover", json!({}), None),
        ("logging/setLevel", json!({"level": "info"}), None),
        ("skills/list", json!({}), None),
        ("skills/get", json!({"uri": "skill://x"}), None),
        ("tasks/get", json!({"taskId": "x"}), None),
        ("tasks/result", json!({"taskId": "x"}), None),
        ("tasks/list", json!({}), None),
        ("tasks/cancel", json!({"taskId": "x"}), None),
        ("tasks/update", json!({"taskId": "x", "inputResponses": {}}), None),
        ("com.example/search", json!({}), None),
        ("invented/method", json!({}), None),
    ]
}

fn ending(result: &Result<Value, RpcError>) -> (String, String) {
    match result {
        Ok(result) if result["isError"] == true => ("tool_error".to_owned(), "-".to_owned()),
        Ok(_) => ("-".to_owned(), "-".to_owned()),
        // A mistake of the client is no error of the server.
        Err(error) if matches!(error.code, -32700 | -32602..=-32600 | -32002) => {
            ("-".to_owned(), error.code.to_string())
        }
        Err(error) => (error.code.to_string(), error.code.to_string()),
    }
}

/// See [Server](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#server).
#[tokio::test]
async fn every_request_has_a_span_and_a_measurement() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (revision, transport) in Revision::ALL.into_iter().flat_map(|it| TRANSPORTS.map(|transport| (it, transport))) {
        let recorder = Arc::new(Recorder::default());
        let mut client = client(server(&recorder), transport, revision);
        client.tools().await.unwrap();
        for (method, params, name) in requests() {
            recorder.take();
            spans.0.lock().unwrap().clear();
            let id = client.send_request(method, params.clone());
            let result = client.response(id).await;
            let (error, code) = ending(&result);
            let known = if method == "invented/method" { "_OTHER" } else { method };
            let case = format!("{revision} {transport} {method} {params} {result:?}");
            let expected = format!("server {known} {} {revision} {transport} {error} {code}", name.unwrap_or("-"));
            assert_eq!(recorder.take(), [expected], "{case}");

            let mut span = spans.take("mcp.request", method).await;
            let mut expected = Fields::new();
            let mut field = |name: &str, value: &str| {
                expected.insert(name.to_owned(), value.to_owned());
            };
            field("span", "mcp.request");
            field("otel.kind", "server");
            field("otel.name", &name.map_or(known.to_owned(), |name| format!("{known} {name}")));
            field("trace_id", "recorded");
            field("mcp.method.name", method);
            field("mcp.protocol.version", revision.as_str());
            field("jsonrpc.request.id", &id.to_string());
            let uri = params["uri"].as_str();
            if let Some(uri) =
                uri.filter(|_| matches!(method, "resources/read" | "resources/subscribe" | "resources/unsubscribe"))
            {
                field("mcp.resource.uri", uri);
            }
            if method == "tools/call" {
                field("gen_ai.operation.name", "execute_tool");
            }
            if let Some(name) = name {
                field(if method == "tools/call" { "gen_ai.tool.name" } else { "gen_ai.prompt.name" }, name);
            }
            if let Some((transport, version)) = transport.split_once("/http/") {
                field("network.transport", transport);
                field("network.protocol.name", "http");
                field("network.protocol.version", version);
            } else {
                field("network.transport", transport);
            }
            if error != "-" {
                field("error.type", &error);
                field("otel.status_code", "error");
            }
            if result.is_err() {
                field("rpc.response.status_code", &code);
            }
            if let Some(error) = result.as_ref().err().filter(|_| error != "-") {
                field("otel.status_description", &error.message);
            }
            if let Some(session) = span.remove("mcp.session.id") {
                assert_eq!((session.len(), transport), (8, "tcp/http/1.1"), "{case}");
            }
            assert_eq!(span, expected, "{case}");
        }
    }
}

#[tokio::test]
async fn panics_time_outs_and_cancellations_are_errors_of_their_own() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (revision, transport) in Revision::ALL.into_iter().flat_map(|it| TRANSPORTS.map(|transport| (it, transport))) {
        for (tool, error, code) in [
            ("panics", "panic", "-32603"),
            ("panics_later", "panic", "-32603"),
            ("panics_blocking", "panic", "-32603"),
            ("slow", "timeout", "-"),
            ("waits", "cancelled", "-"),
        ] {
            let recorder = Arc::new(Recorder::default());
            let mut client = client(server(&recorder), transport, revision);
            client.tools().await.unwrap();
            recorder.take();
            spans.0.lock().unwrap().clear();
            let id = client.send_request("tools/call", json!({"name": tool, "arguments": {}}));
            if tool == "waits" {
                while client.in_flight() == 0 {
                    client.next_lines().await;
                }
                if transport == "pipe" || revision < Revision::V2026_07_28 {
                    client.notify("notifications/cancelled", json!({"requestId": id}));
                }
                // A stateless request over HTTP is cancelled by closing its response.
                if transport != "pipe" {
                    for _ in 0..20 {
                        tokio::time::timeout(Duration::from_millis(1), client.next_lines()).await.ok();
                    }
                }
                drop(client);
            } else {
                client.response(id).await.ok();
            }
            let expected = format!("server tools/call {tool} {revision} {transport} {error} {code}");
            let recorded: Vec<_> = recorder.take().into_iter().filter(|line| line.contains("tools/call")).collect();
            assert_eq!(recorded, [expected], "{revision} {transport} {tool}");
            let span = spans.take("mcp.request", "tools/call").await;
            assert_eq!((&*span["error.type"], &*span["otel.status_code"]), (error, "error"), "{span:?}");
            assert_eq!(span.get("rpc.response.status_code").map_or("-", |code| code), code, "{span:?}");
        }
    }
}

/// `_meta` describes the request, and headers describe the HTTP request that carries it.
#[tokio::test]
async fn the_trace_context_comes_from_meta_and_from_headers() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let (own, other) = (format!("traceparent={TRACE}"), format!("traceparent={OTHER_TRACE}"));
    for (meta, headers, expected) in [
        (json!({}), &[][..], "[] []".to_owned()),
        (json!({"traceparent": TRACE}), &[], format!("[{own}] []")),
        (json!({}), &[("traceparent", TRACE)], format!("[] [{own}]")),
        (json!({"traceparent": TRACE}), &[("traceparent", OTHER_TRACE)], format!("[{own}] [{other}]")),
        (
            json!({"traceparent": TRACE, "tracestate": "a=1", "baggage": "user=ada"}),
            &[("tracestate", "b=2"), ("baggage", "user=eve")],
            format!("[{own} tracestate=a=1 baggage=user=ada] [baggage=user=eve]"),
        ),
        (
            json!({}),
            &[
                ("traceparent", TRACE),
                ("tracestate", "a=1,b=2"),
                ("tracestate", "c=3"),
                ("baggage", "x=1"),
                ("baggage", "y=2"),
            ],
            format!("[] [{own} tracestate=a=1,b=2,c=3 baggage=x=1,y=2]"),
        ),
        (json!({}), &[("traceparent", TRACE), ("traceparent", OTHER_TRACE)], "[] []".to_owned()),
        (
            json!({"traceparent": "00-0-0-01", "tracestate": "a=1", "baggage": 1}),
            &[("traceparent", "x")],
            "[] []".to_owned(),
        ),
        (json!([]), &[], "[] []".to_owned()),
    ] {
        for (revision, transport) in
            Revision::ALL.into_iter().flat_map(|it| TRANSPORTS.map(|transport| (it, transport)))
        {
            if transport == "pipe" && !headers.is_empty() || !meta.is_object() && revision == Revision::V2026_07_28 {
                continue;
            }
            let recorder = Arc::new(Recorder::default());
            let mut client = client(server(&recorder), transport, revision);
            for (name, value) in headers {
                client = client.with_header(name, value);
            }
            client.tools().await.unwrap();
            recorder.traces.lock().unwrap().clear();
            let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta});
            client.request("tools/call", params).await.unwrap();
            assert_eq!(*recorder.traces.lock().unwrap(), [&*expected], "{revision} {transport} {meta} {headers:?}");
        }
    }
}

/// Layers, outermost first, and the function have spans of their own, except for those of a task.
#[tokio::test]
async fn functions_and_layers_have_spans_of_their_own() {
    async fn first(call: Call, next: Next) -> Outcome {
        next.run(call).await
    }
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let layer = "layer it::telemetry::functions_and_layers_have_spans_of_their_own::{{closure}}::first";
    for (tool, is_layered, expected) in [
        ("add", false, &["function add"][..]),
        ("add_later", false, &["function add_later"]),
        ("add", true, &["function add", layer]),
        ("add_later", true, &["function add_later", layer]),
        ("runs", true, &[]),
    ] {
        let server = server(&Arc::default());
        let server = if is_layered { server.layer(from_fn(first)) } else { server };
        let mut client = server.test_client(Revision::V2025_11_25);
        client.tools().await.unwrap();
        spans.0.lock().unwrap().clear();
        let arguments = if tool == "runs" { json!({"fails": false}) } else { json!({"a": 1, "b": 2}) };
        let mut params = json!({"name": tool, "arguments": arguments});
        if tool == "runs" {
            params["task"] = json!({});
        }
        let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
        if tool == "runs" {
            client.request("tasks/result", json!({"taskId": task})).await.unwrap();
        }
        let ended = spans.0.lock().unwrap().clone();
        let ended: Vec<_> =
            ended.iter().filter(|span| span["span"] == "mcp.call").map(|span| &*span["otel.name"]).collect();
        assert_eq!(ended, expected, "{tool} {is_layered}");
    }
}

/// See [Client](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#client).
#[tokio::test]
async fn requests_to_the_client_are_operations_that_carry_their_trace() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for transport in TRANSPORTS {
        for (answer, error, code) in [
            (json!({"result": {"action": "accept", "content": {"sure": true}}}), "-", "-"),
            (json!({"error": {"code": -32603, "message": "no"}}), "-32603", "-32603"),
            // Clients must not add values to a metric.
            (json!({"error": {"code": 12345, "message": "no"}}), "_OTHER", "-"),
            (json!({"error": {"code": -32123, "message": "no"}}), "_OTHER", "-"),
        ] {
            let recorder = Arc::new(Recorder::default());
            let mut client = client(server(&recorder), transport, Revision::V2025_11_25);
            client = client.answering(|_| Value::Null);
            client.tools().await.unwrap();
            recorder.take();
            spans.0.lock().unwrap().clear();
            let call = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "asks"}});
            let mut lines = client.send_raw(call.to_string().as_bytes());
            if lines.is_empty() {
                lines = client.next_lines().await;
            }
            let request = lines.remove(0);
            assert_eq!(request["params"]["_meta"]["traceparent"], TRACE, "{request}");
            let mut response = answer.clone();
            response["jsonrpc"] = "2.0".into();
            response["id"] = request["id"].clone();
            client.send_raw(response.to_string().as_bytes());
            while recorder.operations.lock().unwrap().is_empty() {
                tokio::time::timeout(Duration::from_millis(5), client.next_lines()).await.ok();
            }
            let expected = format!("client elicitation/create - 2025-11-25 {transport} {error} {code}");
            assert_eq!(recorder.take()[0], expected);
            let span = spans.take("mcp.client_request", "elicitation/create").await;
            for (field, value) in [
                ("otel.name", "elicitation/create"),
                ("otel.kind", "client"),
                ("mcp.method.name", "elicitation/create"),
                ("mcp.protocol.version", "2025-11-25"),
                ("jsonrpc.request.id", &*request["id"].to_string()),
                ("error.type", error),
                ("rpc.response.status_code", code),
            ] {
                assert_eq!(span.get(field).map_or("-", |value| value), value, "{field}: {span:?}");
            }
        }
    }
}

/// The span of the request ends with its response, so the span of the task is not inside of it.
#[tokio::test]
async fn a_task_is_an_operation_that_follows_its_request() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (fails, error) in [(false, "-"), (true, "tool_error")] {
        for transport in TRANSPORTS {
            let recorder = Arc::new(Recorder::default());
            let mut client = client(server(&recorder), transport, Revision::V2025_11_25);
            client.tools().await.unwrap();
            recorder.take();
            recorder.traces.lock().unwrap().clear();
            spans.0.lock().unwrap().clear();
            let params = json!({
                "name": "runs", "arguments": {"fails": fails}, "task": {}, "_meta": {"traceparent": TRACE}
            });
            let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
            client.request("tasks/result", json!({"taskId": task})).await.unwrap();
            let recorded = recorder.take();
            let task = format!("task tools/call runs 2025-11-25 {transport} {error} -");
            let request = format!("server tools/call runs 2025-11-25 {transport} - -");
            assert!(recorded.contains(&task) && recorded.contains(&request), "{recorded:?}");
            let traces = recorder.traces.lock().unwrap().clone();
            assert_eq!(traces[..2], [&*format!("[traceparent={TRACE}] []"); 2]);
            let span = spans.take("mcp.task", "tools/call").await;
            assert_eq!((&*span["otel.name"], &*span["follows"]), ("task runs", "mcp.request"), "{span:?}");
            assert_eq!(span.get("error.type").map_or("-", |error| error), error, "{span:?}");
        }
    }
}

#[tokio::test]
async fn notifications_sessions_and_subscriptions_are_measured() {
    for transport in TRANSPORTS {
        let recorder = Arc::new(Recorder::default());
        let mut client = client(server(&recorder), transport, Revision::V2025_11_25);
        client.tools().await.unwrap();
        client.notify("notifications/roots/list_changed", json!({}));
        client.notify("notifications/invented", json!({}));
        client.request("ping", json!({})).await.unwrap();
        let recorded = recorder.take();
        for method in ["initialize", "notifications/initialized", "notifications/roots/list_changed", "_OTHER"] {
            let expected = format!("server {method} - 2025-11-25 {transport} - -");
            assert_eq!(recorded.iter().filter(|line| **line == expected).count(), 1, "{method}: {recorded:?}");
        }
        drop(client);
        assert_eq!(recorder.take(), [format!("session 2025-11-25 {transport} -")]);

        let recorder = Arc::new(Recorder::default());
        let mut client = self::client(server(&recorder), transport, Revision::V2026_07_28);
        client.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        tokio::time::timeout(Duration::from_millis(50), client.next_lines()).await.ok();
        assert_eq!(recorder.take(), [""; 0]);
        drop(client);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(recorder.take(), [format!("server subscriptions/listen - 2026-07-28 {transport} - -")]);
    }
}

/// The test client has a stream for messages outside of calls while it has a session.
#[tokio::test]
async fn event_streams_are_counted_while_they_are_open_and_measured_when_they_end() {
    let waits = || ("tools/call", json!({"name": "waits", "arguments": {}}));
    let listens = || ("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    for (revision, (method, params), kind) in [
        (Revision::V2025_11_25, waits(), "call"),
        (Revision::V2025_11_25, waits(), "session"),
        (Revision::V2026_07_28, waits(), "call"),
        (Revision::V2026_07_28, listens(), "subscription"),
    ] {
        let recorder = Arc::new(Recorder::default());
        let server = server(&recorder).build().unwrap();
        let stats = server.stats();
        let open = || {
            let stats = stats.read();
            let mut found = stats.iter().filter(|stat| stat.name == "mcp.server.streams.active");
            found.find(|stat| stat.attribute == Some(("mcp.stream.kind", kind))).unwrap().value
        };
        let service = server.into_http_service(HttpOptions::default().stream_after(Duration::ZERO)).unwrap();
        let mut client = TestClient::over_http(service, "/", revision);
        client.tools().await.unwrap();
        client.send_request(method, params);
        let mut seen = open();
        for _ in 0..20 {
            seen = seen.max(open());
            tokio::time::timeout(Duration::from_millis(1), client.next_lines()).await.ok();
        }
        // The streams of other tests of the process are counted as well.
        assert!(seen >= 1, "{revision} {kind}");
        drop(client);
        for _ in 0..1000 {
            if recorder.streams.lock().unwrap().contains(&kind) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ended = recorder.streams.lock().unwrap().clone();
        assert!(ended.contains(&kind), "{revision} {kind}: {ended:?}");
    }
}

#[tokio::test]
async fn the_user_is_named_only_by_an_option() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (names_users, expected) in [(false, None), (true, Some("ada"))] {
        let recorder = Arc::new(Recorder { names_users, ..Recorder::default() });
        let client = server(&recorder).test_client(Revision::V2026_07_28);
        let mut client = client.with_extension(Identity::new(Principal::new("ada")));
        client.tools().await.unwrap();
        let span = spans.take("mcp.request", "tools/list").await;
        assert_eq!(span.get("enduser.id").map(String::as_str), expected, "{span:?}");
    }
}

#[tokio::test]
async fn operations_of_a_shared_backend_are_measured() {
    let recorder = Arc::new(Recorder::default());
    let server = server(&recorder).backend(MemoryBackend::default());
    let mut client = client(server, TRANSPORTS[1], Revision::V2025_11_25);
    client.tools().await.unwrap();
    let recorded = recorder.take();
    assert!(recorded.contains(&"backend insert -".to_owned()), "{recorded:?}");
}

/// Other tests of the process count as well, so what is counted here is compared with a lower bound.
#[tokio::test]
async fn statistics_have_the_same_order_and_count_what_happens() {
    let recorder = Arc::new(Recorder::default());
    let server = server(&recorder).max_in_flight(1).build().unwrap();
    let stats = server.stats();
    let value = |name: &str, label: Option<&str>| {
        let stats = stats.read();
        let mut found = stats.iter().filter(|stat| stat.name == name);
        found.find(|stat| stat.attribute.map(|(_, value)| value) == label).unwrap().value
    };
    let keys = |stats: &[Stat]| stats.iter().map(|stat| (stat.name, stat.attribute)).collect::<Vec<_>>();
    let before = stats.read();
    let distinct: std::collections::HashSet<_> = keys(&before).into_iter().collect();
    assert_eq!(distinct.len(), before.len());
    let refused = value("mcp.server.refusals", Some("calls"));
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service, "/", Revision::V2025_11_25);
    client.tools().await.unwrap();
    client.send_request("tools/call", json!({"name": "waits", "arguments": {}}));
    let second = client.send_request("tools/call", json!({"name": "waits", "arguments": {}}));
    assert!(client.response(second).await.is_err());
    assert!(value("mcp.server.refusals", Some("calls")) > refused);
    assert!(value("mcp.server.calls.active", None) >= 1);
    assert_eq!(value("mcp.server.sessions", None), 1);
    assert!(value("mcp.server.buffer.limit", Some("responses")) > 0);
    assert_eq!(keys(&stats.read()), keys(&before));
}

/// Telemetry that panics whenever it is called.
struct Broken;

impl Telemetry for Broken {
    fn connect(&self, _: Stats) {
        panic!("connect")
    }

    fn unsampled(&self, trace: &TraceContext<'_>) -> Option<EnterContext> {
        trace.meta().traceparent.is_none().then(|| panic!("unsampled"));
        Some(Arc::new(|| panic!("enter")))
    }

    fn span_created(&self, _: &Span, _: &TraceContext<'_>) {
        panic!("span_created")
    }

    fn inject(&self, _: &Span) -> TraceCarrier<'static> {
        panic!("inject")
    }

    fn server_operation(&self, _: &Operation<'_>) {
        panic!("server_operation")
    }

    fn client_operation(&self, _: &Operation<'_>) {
        panic!("client_operation")
    }

    fn task_operation(&self, _: &Operation<'_>) {
        panic!("task_operation")
    }

    fn session_ended(&self, _: &SessionEnd<'_>) {
        panic!("session_ended")
    }

    fn stream_ended(&self, _: &StreamEnd) {
        panic!("stream_ended")
    }

    fn names_users(&self) -> bool {
        panic!("names_users")
    }
}

/// Each request gets its response, whatever telemetry does.
#[tokio::test]
async fn panics_of_telemetry_reach_no_request() {
    let _guard = set_default(tracing_subscriber::registry().with(Spans::default()));
    for transport in TRANSPORTS {
        for revision in Revision::ALL {
            let server = server(&Arc::default()).telemetry(Broken);
            let mut client = client(server, transport, revision).answering(|request| match &*request.method {
                "elicitation/create" => json!({"action": "accept", "content": {"sure": true}}),
                _ => json!({}),
            });
            let sum = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
            assert_eq!(sum.text(), "3", "{revision} {transport}");
            let traced = json!({"name": "add_later", "arguments": {"a": 1, "b": 2}, "_meta": {"traceparent": TRACE}});
            client.request("tools/call", traced).await.unwrap();
            client.call("asks", ()).await.ok();
            assert!(client.call("panics_later", ()).await.is_err(), "{revision} {transport}");
            assert!(client.request("invented/method", json!({})).await.is_err(), "{revision} {transport}");
            assert_eq!(client.call("add", json!({"a": 2, "b": 2})).await.unwrap().text(), "4");
        }
    }
}
