//! Where the spans of an operation belong: its context, its parts, requests to the client, and tasks.

use std::{collections::BTreeMap, io, sync::Mutex};

use tracing_subscriber::{
    filter::{Targets, filter_fn},
    fmt,
    layer::Layer as _,
};

use super::*;

/// `_meta` describes the request, and headers describe the HTTP request that carries it.
#[tokio::test]
async fn the_trace_context_comes_from_meta_and_from_headers() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let (own, other) = (format!("traceparent={TRACE}"), format!("traceparent={OTHER_TRACE}"));
    for (meta, headers, expected) in [
        (json!({}), &[][..], "-".to_owned()),
        (json!({"traceparent": TRACE}), &[], format!("[{own}] []")),
        (json!({}), &[("traceparent", TRACE)], format!("[] [{own}]")),
        (json!({}), &[("baggage", "x=1")], "[] [baggage=x=1]".to_owned()),
        (json!({}), &[("tracestate", "a=1")], "-".to_owned()),
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
        (
            json!({"traceparent": TRACE, "baggage": "without-value"}),
            &[("baggage", "also without value")],
            format!("[{own}] []"),
        ),
        (json!([]), &[], "-".to_owned()),
    ] {
        for (revision, transport) in
            Revision::ALL.into_iter().flat_map(|it| TRANSPORTS.map(|transport| (it, transport)))
        {
            if transport == "pipe" && !headers.is_empty() || !meta.is_object() && revision.is_stateless() {
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

/// The client repeats a call with its answer in a request of its own.
#[tokio::test]
async fn a_call_with_an_answer_continues_the_call_that_has_asked() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans));
    let recorder = Arc::new(Recorder::default());
    let mut client = server(&recorder)
        .test_client(Revision::V2026_07_28)
        .answering(|_| json!({"action": "accept", "content": {"sure": true}}));
    assert_eq!(client.call("asks", ()).await.unwrap().text(), "true");
    let earlier = TraceCarrier { traceparent: Some(TRACE.into()), ..TraceCarrier::default() };
    assert_eq!(*recorder.continued.lock().unwrap(), [earlier]);
}

/// Become a task.
#[tool(task = "deferred")]
async fn defers(ctx: &Context) {
    tokio::task::yield_now().await;
    ctx.become_task().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Layers, outermost first, and the function have spans of their own, inside of that of the request or of the task.
#[tokio::test]
async fn functions_and_layers_have_spans_of_their_own() {
    async fn first(call: Call, next: Next) -> Outcome {
        next.run(call).await
    }
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    let layer = "layer it::telemetry::traces::functions_and_layers_have_spans_of_their_own::{{closure}}::first";
    let (of_request, of_task) = (&*format!("{layer} in mcp.request"), &*format!("{layer} in mcp.task"));
    let (session, extension) = (Revision::V2025_11_25, Revision::V2026_07_28);
    for (revision, tool, is_layered, expected) in [
        (session, "add", false, &["function add in mcp.request", "mcp.request"][..]),
        (session, "add_later", false, &["function add_later in mcp.request", "mcp.request"]),
        (session, "add", true, &["function add in mcp.call", of_request, "mcp.request"]),
        (session, "add_later", true, &["function add_later in mcp.call", of_request, "mcp.request"]),
        (session, "runs", false, &["mcp.request", "function runs in mcp.task", "mcp.task"]),
        (session, "runs", true, &["mcp.request", "function runs in mcp.call", of_task, "mcp.task"]),
        (extension, "runs", true, &["mcp.request", "function runs in mcp.call", of_task, "mcp.task"]),
        (
            extension,
            "defers",
            false,
            &["function defers in mcp.request", "mcp.request", "function defers in mcp.task", "mcp.task"],
        ),
        (
            extension,
            "defers",
            true,
            &[
                "function defers in mcp.call",
                of_request,
                "mcp.request",
                "function defers in mcp.call",
                of_task,
                "mcp.task",
            ],
        ),
    ] {
        let server = server(&Arc::default()).with::<defers>();
        let server = if is_layered { server.layer(from_fn(first)) } else { server };
        let mut client = server.test_client(revision);
        client.tools().await.unwrap();
        spans.0.lock().unwrap().clear();
        let arguments = match tool {
            "runs" => json!({"fails": false}),
            "defers" => json!({}),
            _ => json!({"a": 1, "b": 2}),
        };
        let mut params = json!({"name": tool, "arguments": arguments});
        if expected.contains(&"mcp.task") && revision == session {
            params["task"] = json!({});
        }
        if revision == extension {
            let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
            params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        }
        client.request("tools/call", params).await.unwrap();
        let mut ended: Vec<String> = Vec::new();
        for _ in 0..1000 {
            let new = std::mem::take(&mut *spans.0.lock().unwrap());
            ended.extend(new.iter().map(|span| match span.get("around") {
                Some(around) => format!("{} in {around}", span["otel.name"]),
                None => span["span"].clone(),
            }));
            if ended.len() >= expected.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ended, expected, "{revision} {tool} {is_layered}");
    }
}

/// Return the context for other services.
#[tool]
fn hand_on(ctx: &Context) -> String {
    let trace = ctx.trace_context();
    let fields = TraceCarrier::KEYS.into_iter().filter_map(|key| Some(format!("{key}={}", trace.get(key)?)));
    fields.collect::<Vec<_>>().join(" ")
}

/// The context of the span, since that of the client would be one level too high.
#[tokio::test]
async fn functions_hand_the_context_of_their_span_on_or_else_that_of_the_client() {
    let invalid = json!({"traceparent": "00", "tracestate": "a=1"});
    for (has_telemetry, meta, header, expected) in [
        (true, json!({"traceparent": OTHER_TRACE, "baggage": "user=ada"}), None, format!("traceparent={TRACE}")),
        (
            false,
            json!({"traceparent": OTHER_TRACE, "tracestate": "a=1", "baggage": "user=ada"}),
            None,
            format!("traceparent={OTHER_TRACE} tracestate=a=1 baggage=user=ada"),
        ),
        (false, invalid, Some(OTHER_TRACE), format!("traceparent={OTHER_TRACE}")),
        (false, json!({"traceparent": TRACE}), Some(OTHER_TRACE), format!("traceparent={TRACE}")),
        (false, json!({}), None, String::new()),
    ] {
        let server = Server::empty("handing-on", "1.0.0").with::<hand_on>();
        let server = if has_telemetry { server.telemetry(Recorder::default()) } else { server };
        let mut client = client(server, TRANSPORTS[1], Revision::V2026_07_28);
        if let Some(header) = header {
            client = client.with_header("traceparent", header);
        }
        let params = json!({"name": "hand_on", "arguments": {}, "_meta": meta});
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], expected, "{has_telemetry} {meta} {header:?}");
    }
}

/// Other services get what telemetry returns, so it must be valid.
#[tokio::test]
async fn an_invalid_context_of_telemetry_is_not_handed_on() {
    struct Invalid;

    impl Telemetry for Invalid {
        fn inject(&self, _: &Span) -> TraceCarrier<'static> {
            TraceCarrier {
                traceparent: Some("00".into()),
                tracestate: Some("a=1".into()),
                baggage: Some("user=ada".into()),
            }
        }
    }

    let server = Server::empty("handing-on", "1.0.0").with::<hand_on>().telemetry(Invalid);
    let mut client = server.test_client(Revision::V2026_07_28);
    assert_eq!(client.call("hand_on", ()).await.unwrap().text(), "baggage=user=ada");
}

/// The lines of the log name the principal even if exported spans must not.
#[tokio::test]
async fn json_names_trace_session_request_and_principal() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    for (tool, names_users) in [("panics_later", false), ("panics_later", true), ("task_panics", false)] {
        let (lines, spans) = (Lines::default(), Spans::default());
        let writer = lines.clone();
        let json = fmt::layer().json().with_writer(move || writer.clone());
        let filter =
            Targets::new().with_default(LevelFilter::WARN).with_target("mcp_runtime::request", LevelFilter::INFO);
        let exported = filter_fn(|metadata| metadata.target() != "mcp_runtime::request::caller");
        let subscriber = tracing_subscriber::registry().with(json.with_filter(filter));
        let _guard = set_default(subscriber.with(spans.clone().with_filter(exported)));
        let recorder = Arc::new(Recorder { names_users, ..Recorder::default() });
        let client = client(server(&recorder).with::<task_panics>(), TRANSPORTS[1], Revision::V2025_11_25);
        let mut client = client.with_extension(Identity::new(Principal::new("ada")));
        client.tools().await.unwrap();
        let mut params = json!({"name": tool, "arguments": {}});
        if tool == "task_panics" {
            params["task"] = json!({});
        }
        let id = client.send_request("tools/call", params);
        let response = client.response(id).await;
        if let Ok(created) = response {
            client.request("tasks/result", json!({"taskId": created["task"]["taskId"]})).await.unwrap_err();
        }
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let event = events.into_iter().find(|event| event["fields"]["message"] == "function panicked").unwrap();
        let fields = event["spans"].as_array().unwrap().iter().flat_map(|span| span.as_object().unwrap());
        let fields: BTreeMap<_, _> = fields.map(|(name, value)| (&**name, value.as_str().unwrap())).collect();
        let case = format!("{tool} {names_users}: {event}");
        assert_eq!(fields["enduser.id"], "ada", "{case}");
        assert_eq!((fields["trace_id"], fields["jsonrpc.request.id"]), ("recorded", &*id.to_string()), "{case}");
        assert_eq!(fields.get("mcp.session.id").map(|id| id.len()), (tool != "task_panics").then_some(8), "{case}");
        let exported = spans.0.lock().unwrap().clone();
        assert_eq!(exported.iter().any(|span| span.contains_key("enduser.id")), names_users, "{case}");
    }
}

/// Panic in a task.
#[tool(task)]
async fn task_panics() {
    panic!("boo")
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
            (json!({"error": {"code": -32602, "message": "no"}}), "-32602", "-32602"),
            (json!({"error": {"code": -1, "message": "no"}}), "-1", "-1"),
            // Clients must not add values to a metric.
            (json!({"error": {"code": 12345, "message": "no"}}), "_OTHER", "12345"),
            (json!({"error": {"code": -32123, "message": "no"}}), "_OTHER", "-32123"),
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
            let counted = if error == "_OTHER" { "-" } else { code };
            let expected = format!("client elicitation/create - 2025-11-25 {transport} {error} {counted}");
            assert_eq!(recorder.take()[0], expected);
            let span = spans.take("mcp.client_request", "elicitation/create").await;
            for (field, value) in [
                ("otel.name", "elicitation/create"),
                ("otel.kind", "client"),
                ("trace_id", "recorded"),
                ("mcp.method.name", "elicitation/create"),
                ("mcp.protocol.version", "2025-11-25"),
                ("jsonrpc.request.id", &*request["id"].to_string()),
                ("error.type", error),
                ("rpc.response.status_code", code),
                ("otel.status_description", if error == "-" { "-" } else { "no" }),
            ] {
                assert_eq!(span.get(field).map_or("-", |value| value), value, "{field}: {span:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_the_client_without_a_response_are_errors_of_their_own() {
    /// Ask, and wait for a moment.
    #[tool]
    async fn asks_briefly(ctx: &Context) -> Result<bool, Fault> {
        let question = Elicitation::<Sure>::new("sure", "Are you sure?").timeout(Duration::from_millis(5));
        Ok(ctx.ask(question).await?.is_accepted())
    }

    /// Ping the client.
    #[tool]
    async fn pings(ctx: &Context) -> Result<(), Fault> {
        ctx.ping().await.map(drop)
    }

    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (tool, method, error) in [
        ("asks_briefly", "elicitation/create", "timeout"),
        ("asks", "elicitation/create", "cancelled"),
        ("pings", "ping", "timeout"),
    ] {
        let recorder = Arc::new(Recorder::default());
        let server = server(&recorder).with::<asks_briefly>().with::<pings>();
        let mut client = server.test_client(Revision::V2025_11_25).answering(|_| Value::Null);
        client.tools().await.unwrap();
        recorder.take();
        let call = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": tool}});
        client.send_raw(call.to_string().as_bytes());
        if error == "cancelled" {
            client.notify("notifications/cancelled", json!({"requestId": 99}));
        }
        let mut recorded = Vec::new();
        for _ in 0..1000 {
            if recorded.iter().any(|line: &String| line.starts_with("client ")) {
                break;
            }
            tokio::time::timeout(Duration::from_millis(100), client.next_lines()).await.ok();
            recorded.append(&mut recorder.take());
        }
        let expected = format!("client {method} - 2025-11-25 pipe {error} -");
        assert!(recorded.contains(&expected), "{recorded:?}");
        let span = spans.take("mcp.client_request", method).await;
        assert_eq!((&*span["error.type"], &*span["otel.status_code"]), (error, "error"), "{span:?}");
    }
}

/// The second round of a call is linked to the first one.
#[tokio::test]
async fn only_a_recorded_span_continues_an_earlier_one() {
    #[derive(Default)]
    struct Continued(Mutex<Vec<String>>);

    impl Telemetry for Continued {
        fn inject(&self, _: &Span) -> TraceCarrier<'static> {
            TraceCarrier { traceparent: Some(TRACE.into()), ..TraceCarrier::default() }
        }

        fn span_continues(&self, _: &Span, earlier: &TraceCarrier<'_>) {
            self.0.lock().unwrap().extend(earlier.get("traceparent").map(str::to_owned));
        }
    }

    for (level, expected) in [(LevelFilter::TRACE, &[TRACE][..]), (LevelFilter::OFF, &[])] {
        let _first = set_default(tracing_subscriber::registry().with(LevelFilter::TRACE));
        let telemetry = Arc::new(Continued::default());
        let server = Server::empty("continued", "1.0.0").with::<asks>().telemetry(Arc::clone(&telemetry));
        let mut client = server.test_client(Revision::V2026_07_28);
        let capabilities = json!({"elicitation": {}});
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let mut params = json!({"name": "asks", "arguments": {}, "_meta": meta});
        params["requestState"] = client.request("tools/call", params.clone()).await.unwrap()["requestState"].take();
        params["inputResponses"] = json!({"sure": {"action": "decline"}});
        let _second = set_default(tracing_subscriber::registry().with(level));
        client.request("tools/call", params).await.unwrap();
        assert_eq!(*telemetry.0.lock().unwrap(), expected, "{level}");
    }
}

#[tokio::test]
async fn a_question_of_a_task_carries_its_trace_and_its_task() {
    /// Count the roots.
    #[tool(task)]
    async fn counts_roots(ctx: &Context) -> Result<String, mcp_runtime::Fault> {
        Ok(ctx.roots().await?.len().to_string())
    }

    let server = server(&Arc::new(Recorder::default())).with::<counts_roots>();
    let mut client = server.test_client(Revision::V2025_11_25).answering(|_| Value::Null);
    let params = json!({"name": "counts_roots", "task": {}});
    let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
    client.send_request("tasks/result", json!({"taskId": task}));
    let asked = async {
        loop {
            let mut received = client.notifications().into_iter();
            if let Some(question) = received.find(|message| message["method"] == "roots/list") {
                return question;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let question = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("a question");
    let meta = &question["params"]["_meta"];
    let related = &meta["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!((&meta["traceparent"], related), (&json!(TRACE), &task), "{question}");
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
