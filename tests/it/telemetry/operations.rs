//! Each operation is recorded once, in the names of the conventions, whatever telemetry does.

use super::*;

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
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "summary"}, "argument": {"name": "topic", "value": ""}}),
            Some("summary"),
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "summary"}, "argument": {"name": "unknown", "value": ""}}),
            Some("summary"),
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
            if let Some(uri) = params["uri"].as_str() {
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

/// The message of such an error repeats a header and an argument, which telemetry must not learn.
#[tokio::test]
async fn the_values_of_headers_that_do_not_match_are_not_recorded() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let server = server(&Arc::new(Recorder::default()));
    let mut client = client(server, TRANSPORTS[1], Revision::V2026_07_28).with_header("mcp-name", "secret");
    let id = client.send_request("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}}));
    let error = client.response(id).await.unwrap_err();
    assert!(error.code == -32020 && error.message.contains("secret"), "{error:?}");
    let span = spans.take("mcp.request", "tools/call").await;
    assert_eq!(span["error.type"], "-32020", "{span:?}");
    assert!(span.values().all(|value| !value.contains("secret")), "{span:?}");
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

/// Nothing is collected for a measurement that nothing reads.
#[tokio::test]
async fn operations_that_are_not_sampled_are_measured_if_telemetry_wants_it() {
    let _guard = set_default(tracing_subscriber::registry().with(LevelFilter::OFF));
    for (unsampled, count) in [(None, 3), (Some(true), 3), (Some(false), 0)] {
        let recorder = Arc::new(Recorder { unsampled, ..Recorder::default() });
        let mut client = client(server(&recorder), "pipe", Revision::V2026_07_28);
        for tool in ["add", "add_later", "panics_blocking"] {
            let _ = client.call(tool, json!({"a": 1, "b": 2})).await;
        }
        assert_eq!(recorder.take().len(), count, "{unsampled:?}");
    }
}

#[tokio::test]
async fn telemetry_sees_no_span_that_nothing_records() {
    let _guard = set_default(tracing_subscriber::registry().with(LevelFilter::OFF));
    let recorder = Arc::new(Recorder::default());
    let client = server(&recorder).test_client(Revision::V2025_11_25);
    let mut client = client.answering(|_| json!({"action": "decline"}));
    client.call("asks", ()).await.unwrap();
    let params = json!({"name": "runs", "arguments": {"fails": false}, "task": {}});
    let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
    client.request("tasks/result", json!({"taskId": task})).await.unwrap();
    let recorded = recorder.take();
    for side in ["server ", "client ", "task "] {
        assert!(recorded.iter().any(|line| line.starts_with(side)), "{side}: {recorded:?}");
    }
    assert_eq!(*recorder.traces.lock().unwrap(), [""; 0]);
}

/// A batch is rejected as a whole. Each of its requests is an operation.
#[tokio::test]
async fn the_requests_of_a_rejected_batch_are_measured() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let recorder = Arc::new(Recorder::default());
    let server = server(&recorder).authenticate(IdentityFromExtensions::default());
    let server = server.require_scopes_for(|entry| entry.name == "add", Scopes::any(["admin"]));
    let client = client(server, TRANSPORTS[1], Revision::V2025_03_26);
    let mut client = client.with_extension(Identity::new("ada"));
    client.tools().await.unwrap();
    recorder.take();
    spans.0.lock().unwrap().clear();
    let call =
        |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    client.send_raw(json!([call(98, "fails"), call(99, "add")]).to_string().as_bytes());
    while recorder.operations.lock().unwrap().len() < 2 {
        tokio::time::timeout(Duration::from_millis(5), client.next_lines()).await.ok();
    }
    let expected = format!("server tools/call - 2025-03-26 {} - -32600", TRANSPORTS[1]);
    assert_eq!(recorder.take(), [&*expected; 2]);
    let span = spans.take("mcp.request", "tools/call").await;
    assert_eq!(span["mcp.protocol.version"], "2025-03-26", "{span:?}");
}

/// Telemetry that panics whenever it is called.
struct Broken;

impl Telemetry for Broken {
    fn connect(&self, _: Stats) {
        panic!("connect")
    }

    fn unsampled(&self, trace: &TraceContext<'_>) -> Option<Unsampled> {
        trace.meta().traceparent.is_none().then(|| panic!("unsampled"));
        Some(Unsampled::new(0, |_| panic!("enter"), true))
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
