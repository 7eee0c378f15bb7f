//! The log of a server on stderr, and the part that it forwards to its client.

use std::io::Read as _;

use serde_json::json;

use super::{Running, call, fixture, request, text};

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
            data.push(line["params"]["data"].clone());
        }
        let mut expected = vec![json!({"why": "error"})];
        if is_forwarded {
            expected.push(json!({"count": 3, "message": "traced"}));
        }
        assert_eq!(data, expected, "{filter:?}");
    }
}
