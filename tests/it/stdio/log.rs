//! The log of a server on stderr, and the part that it forwards to its client.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::Command,
};

use serde_json::{Value, json};

use super::{Running, call, fixture, request, text};

/// Closes the stdin of a server that is no longer answering, and returns its log.
fn log_of(mut server: Running) -> String {
    let mut stderr = server.child.stderr.take().unwrap();
    assert_eq!(server.end(), (vec![], Some(0)));
    let mut log = String::new();
    stderr.read_to_string(&mut log).unwrap();
    log
}

/// Backtraces of panics soon fill the pipe, and writes to a full pipe block.
#[test]
fn a_server_whose_stderr_is_full_keeps_answering() {
    let mut server = Running::start(fixture().env("RUST_LOG", "info").env("RUST_BACKTRACE", "full"));
    for id in 0..200 {
        server.send(&call(id, "panics", json!({})));
        let answer = server.receive();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)));
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

#[test]
fn panics_are_logged_with_their_backtraces() {
    let mut server = Running::start(fixture().env("RUST_LOG", "info").env("RUST_BACKTRACE", "1"));
    server.send(&call(1, "panics", json!({})));
    assert_eq!(server.receive()["id"], 1);
    let mut stderr = server.child.stderr.take().unwrap();
    assert_eq!(server.end(), (vec![], Some(0)));
    let mut log = String::new();
    stderr.read_to_string(&mut log).unwrap();
    for part in ["thread 'main' panicked at", "a secret\n", "stack backtrace:\n", "function panicked"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let mut server = Running::start(fixture().env("RUST_LOG", "info").env("RUST_BACKTRACE", "0"));
    server.send(&call(1, "panics", json!({})));
    assert_eq!(server.receive()["id"], 1);
    let log = log_of(server);
    assert!(log.contains("a secret\n") && !log.contains("backtrace"), "{log}");
}

/// The warning appears once in a process, and only if the revision of the client deprecates the feature.
#[test]
fn the_use_of_a_deprecated_feature_is_reported_once() {
    for (version, warnings) in [("2025-11-25", 0), ("2026-07-28", 1)] {
        let mut server = Running::start(fixture().env_remove("RUST_LOG").arg("--forward-log"));
        let mut meta = json!({});
        if version == "2025-11-25" {
            let client = json!({"name": "c", "version": "1"});
            let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
            server.send(&format!("{}\n", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})));
            assert_eq!(server.receive()["id"], 0);
        } else {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/logLevel"] = json!("info");
        }
        for id in 1..3 {
            let params = json!({"name": "logs_sync", "_meta": meta});
            server
                .send(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})));
            assert_eq!(server.receive()["params"]["data"], "inside");
            assert_eq!(server.receive()["id"], id);
        }
        let log = log_of(server);
        assert_eq!(log.matches("deprecated since 2026-07-28").count(), warnings, "{version}: {log}");
    }
}

/// A server does not use features that the client has not declared.
#[test]
fn only_the_use_of_a_deprecated_feature_is_reported() {
    let sampled = json!({"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"});
    for (capabilities, responses, expected) in [
        (json!({}), json!({}), &[][..]),
        (json!({"sampling": {}}), json!({}), &["a function uses sampling"]),
        (
            json!({"sampling": {}, "roots": {}}),
            json!({"sampling": sampled}),
            &["a function uses sampling", "a function uses roots"],
        ),
    ] {
        let mut server = Running::start(fixture().env_remove("RUST_LOG"));
        for id in 1..3 {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
            let params = json!({"name": "deprecated", "inputResponses": responses, "_meta": meta});
            server
                .send(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})));
            assert_eq!(server.receive()["id"], id);
        }
        let log = log_of(server);
        let found: Vec<_> = ["a function uses sampling", "a function uses roots"]
            .into_iter()
            .filter(|warning| log.matches(warning).count() == 1)
            .collect();
        assert_eq!(found, expected, "{log}");
    }
}

/// Clients start a process for each conversation and show its stderr.
#[test]
fn a_server_without_problems_is_silent() {
    let handshake = |version: &str| {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    };
    for (log, is_silent) in [(None, true), (Some("info"), false)] {
        let mut command = fixture();
        match log {
            None => command.env_remove("RUST_LOG"),
            Some(filter) => command.env("RUST_LOG", filter),
        };
        let mut server = Running::start(&mut command);
        server.send(&handshake("2025-11-25"));
        assert_eq!(server.receive()["id"], 0);
        server.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        server.send(&call(1, "add", json!({"a": 1, "b": 2})));
        assert_eq!(text(&server.receive()), "3");
        server.send(&call(2, "add", json!({"a": "x"})));
        assert_eq!(server.receive()["result"]["isError"], true);
        server.send(&request(3, "nowhere", json!({})));
        assert_eq!(server.receive()["error"]["code"], -32601);
        let mut stderr = server.child.stderr.take().unwrap();
        assert_eq!(server.end(), (vec![], Some(0)));
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(log == "printed at startup\n", is_silent, "{log}");
    }
}

#[test]
fn output_printed_by_functions_goes_to_stderr() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "prints", json!({})));
    assert_eq!(text(&server.receive()), "printed");
    let mut stderr = server.child.stderr.take().unwrap();
    assert_eq!(server.end(), (vec![], Some(0)));
    let mut printed = String::new();
    stderr.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "printed at startup\nprinted by a function\n");
}

/// The client of this test never reads stderr while the server runs.
#[test]
fn functions_that_print_never_block() {
    let mut server = Running::start(&mut fixture());
    for id in 0..2 {
        server.send(&call(id, "floods", json!({})));
        assert_eq!(text(&server.receive()), "printed");
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// Output that was not dropped is written completely, and the log says how much was dropped.
#[test]
fn output_that_is_not_read_in_time_is_dropped_and_counted() {
    let mut server = Running::start(fixture().env("RUST_BACKTRACE", "0"));
    server.send(&call(1, "floods", json!({})));
    assert_eq!(text(&server.receive()), "printed");
    let mut stderr = server.child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut log = Vec::new();
        stderr.read_to_end(&mut log).map(|_| String::from_utf8_lossy(&log).into_owned())
    });
    assert_eq!(server.end(), (vec![], Some(0)));
    let log = reader.join().unwrap().unwrap();
    let reports = log.lines().filter_map(|line| {
        let bytes = line.strip_prefix("WARN ")?.strip_suffix(" bytes were dropped because stderr was not read")?;
        Some((line.len() + 1, bytes.parse::<usize>().unwrap()))
    });
    let (reports, dropped) = reports.fold((0, 0), |(length, dropped), (line, bytes)| (length + line, dropped + bytes));
    let printed = 2 * (10 << 10) * ((1 << 10) + 1) + "printed at startup\n".len();
    // The panic message is the rest.
    let rest = (log.len() - reports + dropped).checked_sub(printed);
    assert!(dropped > 0 && rest.is_some_and(|rest| rest < 8 << 10), "{dropped} {rest:?}");
}

#[test]
fn output_without_a_line_break_is_written_at_the_end() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "prompts", json!({})));
    assert_eq!(text(&server.receive()), "printed");
    assert_eq!(log_of(server), "printed at startup\nwithout a line break");
}

/// Terminals and files are written to directly, so that programs see them.
#[test]
fn stderr_can_be_a_file() {
    let path = std::env::temp_dir().join(format!("mcp-stderr-{}", std::process::id()));
    let script = format!("exec \"$0\" 2> \"{}\"", path.display());
    let mut command = Command::new("sh");
    let mut server =
        Running::start(command.args(["-c", &script, env!("CARGO_BIN_EXE_fixture")]).env("RUST_LOG", "off"));
    server.send(&call(1, "floods", json!({})));
    assert_eq!(text(&server.receive()), "printed");
    assert_eq!(server.end(), (vec![], Some(0)));
    let length = fs::metadata(&path).unwrap().len();
    fs::remove_file(&path).unwrap();
    // Nothing is dropped.
    assert!(length > 2 * (10 << 20), "{length}");
}

/// Sends the requests of [`SPANS`], each with the id of its position, and returns the log.
fn log_of_spans(command: &mut Command) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let message = |id: usize, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let mut server = Running::start(command);
    for (id, (method, name, ..)) in SPANS.iter().enumerate() {
        let params = match *method {
            "resources/read" => json!({"uri": "logs://secret"}),
            "completion/complete" => {
                json!({"ref": {"type": "ref/resource", "uri": "logs://{part}"}, "argument": {"name": "part", "value": "s"}})
            }
            _ => json!({"name": name, "arguments": {}}),
        };
        server.send(&message(id, method, params.clone()));
        if *name == "logs_dropped" {
            let cancelled = json!({"requestId": id, "_meta": meta.clone()});
            server.send(&format!(
                "{}\n",
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            ));
            continue;
        }
        let mut result = server.receive()["result"].take();
        if result["resultType"] == "input_required" {
            let mut again = params;
            let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap();
            again["inputResponses"] = json!({key: {"action": "accept", "content": {"sure": true}}});
            again["requestState"] = result["requestState"].clone();
            server.send(&message(id, method, again));
            result = server.receive()["result"].take();
        }
        while result["resultType"] == "task" || result["status"] == "working" {
            server.send(&message(1000, "tasks/get", json!({"taskId": result["taskId"]})));
            let update = server.receive()["result"].take();
            result["resultType"] = update["resultType"].clone();
            result["status"] = update["status"].clone();
        }
        assert!(!result.is_null() && result["isError"] != true, "{name}: {result}");
    }
    log_of(server)
}

/// Requests whose functions log an event: the method, the name, and the span with its last field. The span of a task is its
/// own, so that the span of the request ends with its response.
const SPANS: [(&str, &str, &str, &str); 11] = [
    ("tools/call", "logs_sync", "mcp.request", "gen_ai.tool.name"),
    ("tools/call", "logs_async", "mcp.request", "gen_ai.tool.name"),
    ("tools/call", "logs_blocking", "mcp.request", "gen_ai.tool.name"),
    ("tools/call", "logs_task", "mcp.task", "gen_ai.tool.name"),
    ("tools/call", "logs_blocking_task", "mcp.task", "gen_ai.tool.name"),
    ("tools/call", "logs_deferred", "mcp.task", "gen_ai.tool.name"),
    ("tools/call", "logs_dropped", "mcp.request", "gen_ai.tool.name"),
    ("tools/call", "logs_asking", "mcp.request", "gen_ai.tool.name"),
    ("resources/read", "logs_resource", "mcp.request", ""),
    ("completion/complete", "logs_resource", "mcp.request", ""),
    ("prompts/get", "logs_prompt", "mcp.request", "gen_ai.prompt.name"),
];

#[test]
fn events_of_functions_and_layers_are_inside_the_span_of_their_request() {
    for layered in [false, true] {
        let mut command = fixture();
        command.env("RUST_LOG", "info").args(layered.then_some("--layered"));
        let log = log_of_spans(&mut command);
        for (id, (method, name, span, field)) in SPANS.iter().enumerate() {
            let name_of = if field.is_empty() { String::new() } else { format!(" {field}=\"{name}\"") };
            let fields = format!("mcp.method.name=\"{method}\" jsonrpc.request.id=\"{id}\"{name_of}");
            let span = format!("{span}{{{fields}}}: fixture: ");
            let events = |message| log.matches(&format!("{span}{message}\n")).count();
            assert_eq!(events("inside"), 1, "{name}, {layered}: {log}");
            assert!(!layered || events("around") > 0, "{name}: {log}");
        }
        assert!(!log.contains("secret"), "{log}");
    }
}

/// By default, no span is created. A filter adds it to warnings.
#[test]
fn the_span_has_a_target_of_its_own() {
    for (filter, span) in [
        ("warn", ""),
        (
            "warn,mcp_runtime::request=info",
            r#"mcp.request{mcp.method.name="tools/call" jsonrpc.request.id="1" gen_ai.tool.name="logs"}: "#,
        ),
    ] {
        let mut server = Running::start(fixture().env("RUST_LOG", filter));
        server.send(&call(1, "logs", json!({})));
        assert_eq!(text(&server.receive()), "logged");
        let log = log_of(server);
        assert!(log.contains(&format!(" WARN {span}mcp_tests: traced count=3\n")), "{filter}: {log}");
    }
}

#[test]
fn the_log_can_be_json() {
    for (arguments, variable, is_json) in [
        (&["--log-format", "json"][..], None, true),
        (&["--log-format=json"], Some("text"), true),
        (&[], Some("json"), true),
        (&[], Some(""), false),
        (&["--log-format=text"], Some("json"), false),
        (&[], None, false),
    ] {
        let mut command = fixture();
        command.args(arguments).env_remove("MCP_LOG_FORMAT").envs(variable.map(|format| ("MCP_LOG_FORMAT", format)));
        let log = log_of_spans(command.env("RUST_LOG", "info"));
        let line = log.lines().find(|line| line.contains("inside")).unwrap();
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            assert!(!is_json, "{line}");
            continue;
        };
        assert!(is_json, "{line}");
        let span = json!({
            "name": "mcp.request",
            "mcp.method.name": "tools/call",
            "jsonrpc.request.id": "0",
            "gen_ai.tool.name": "logs_sync",
        });
        assert_eq!((&event["fields"]["message"], &event["span"]), (&json!("inside"), &span));
        assert_eq!((&event["level"], &event["target"]), (&json!("INFO"), &json!("fixture")));
    }
}

/// `RUST_LOG` is not necessary for it.
#[test]
fn lines_of_json_name_their_request_by_default() {
    let mut server = Running::start(fixture().env_remove("RUST_LOG").args(["--log-format", "json"]));
    server.send(&call(1, "logs", json!({})));
    assert_eq!(text(&server.receive()), "logged");
    let log = log_of(server);
    let line = log.lines().find(|line| line.contains("traced")).unwrap();
    let event: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&event["level"], &event["span"]["gen_ai.tool.name"]), (&json!("WARN"), &json!("logs")), "{line}");
}

/// With the log as JSON, so are the address and the error that ends the start.
#[test]
fn every_line_of_a_log_is_json() {
    let command = |address: &str| {
        let mut command = fixture();
        command.env_remove("RUST_LOG").args(["--log-format", "json", "--http", address]);
        command
    };
    let mut server = Running::start(&mut command("127.0.0.1:0"));
    // The fixture prints something itself.
    let is_logged = |line: &String| line != "printed at startup";
    let mut lines = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap).filter(is_logged);
    let first = lines.next().unwrap();
    let event: Value = serde_json::from_str(&first).unwrap();
    assert!(event["fields"]["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{first}");
    server.child.kill().unwrap();
    let failed = command("0.0.0.0:0").output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let log = String::from_utf8(failed.stderr).unwrap();
    let lines = log.lines().map(str::to_owned).filter(is_logged);
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(last["level"], "ERROR", "{log}");
    assert!(last["fields"]["message"].as_str().unwrap().contains("no host is allowed"), "{log}");
}

/// A filter that cannot be read may have been meant to hide something, so only warnings are written and forwarded.
#[test]
fn an_invalid_filter_lets_warnings_through() {
    let mut server = Running::start(fixture().env("RUST_LOG", "fixture=loud").arg("--forward-log"));
    for (name, expected) in [("logs_sync", &[][..]), ("logs", &["info", "error", "traced"])] {
        let logged = request(1, "tools/call", json!({ "name": name }));
        server.send(&logged.replace("\"_meta\":{", "\"_meta\":{\"io.modelcontextprotocol/logLevel\":\"info\","));
        let mut shown = Vec::new();
        while let line = server.receive()
            && line.get("method").is_some()
        {
            shown.push(line["params"]["data"].to_string());
        }
        assert_eq!(shown.len(), expected.len(), "{name}: {shown:?}");
        assert!(shown.iter().zip(expected).all(|(shown, part)| shown.contains(part)), "{name}: {shown:?}");
    }
    let log = log_of(server);
    assert!(log.contains("ignoring invalid `RUST_LOG`"), "{log}");
    assert!(log.contains("traced") && !log.contains("inside"), "{log}");
}

#[test]
fn the_log_of_a_function_is_forwarded() {
    for (forwards, filter, is_forwarded) in [
        (false, None, false),
        (true, None, true),
        (true, Some("warn"), true),
        // The filter of the operator applies to what clients receive.
        (true, Some("error"), false),
        (true, Some("info,mcp_tests=off"), false),
        (true, Some("off"), false),
    ] {
        let mut command = fixture();
        command.env_remove("RUST_LOG").envs(filter.map(|filter| ("RUST_LOG", filter)));
        if forwards {
            command.arg("--forward-log");
        }
        let mut server = Running::start(&mut command);
        let mut logged = request(1, "tools/call", json!({"name": "logs"}));
        logged = logged.replace("\"_meta\":{", "\"_meta\":{\"io.modelcontextprotocol/logLevel\":\"warning\",");
        server.send(&logged);
        let mut data = Vec::new();
        loop {
            let line = server.receive();
            if line.get("method").is_none() {
                break;
            }
            data.push((line["params"]["logger"].clone(), line["params"]["data"].clone()));
        }
        let mut expected = vec![(json!("fixture"), json!({"why": "error"}))];
        if is_forwarded {
            expected.push((json!("mcp_tests"), json!({"count": 3, "message": "traced"})));
        }
        assert_eq!(data, expected, "{filter:?}");
    }
}
