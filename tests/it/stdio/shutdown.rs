//! The end of a process: after the end of input, a signal, or a client that has gone.

use std::{io::Read as _, process::Child, thread, time::Duration};

use serde_json::{Value, json};

use super::{Running, call, fixture, lines, request, signal, text};

#[test]
fn calls_in_flight_finish_after_the_end_of_input() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "wait", json!({"milliseconds": 200})));
    server.send(&call(2, "block", json!({"milliseconds": 200})));
    let (answers, code) = server.end();
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!((ids, code), (vec![Some(1), Some(2)], Some(0)));
}

/// As with `printf … | server`.
#[test]
fn requests_before_the_end_of_input_are_answered_once() {
    let count = 300;
    let requests = (0..count).map(|id| match id % 4 {
        0 => call(id, "wait", json!({"milliseconds": id % 50})),
        1 => call(id, "block", json!({"milliseconds": 1})),
        2 => request(id, "tools/list", json!({})),
        _ => call(id, "add", json!({"a": id, "b": 1})),
    });
    let mut server = Running::start(&mut fixture());
    server.send(&requests.collect::<String>());
    let (answers, code) = server.end();
    let mut ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!((ids, code), ((0..count).collect(), Some(0)));
}

/// The client can answer no more.
#[test]
fn questions_end_with_the_input() {
    let mut server = Running::start(fixture().args(["--grace", "3600000"]));
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
    for (id, method, params) in
        [(1, "initialize", params), (2, "tools/call", json!({"name": "logs_asking", "arguments": {}}))]
    {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        server.send(&format!("{request}\n"));
        if id == 1 {
            server.receive();
            server.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        }
    }
    assert_eq!(server.receive()["method"], "elicitation/create");
    let (answers, code) = server.end();
    let response = answers.iter().find(|answer| answer["id"] == 2).unwrap_or_else(|| panic!("{answers:?}"));
    assert_eq!(response["error"]["message"], "the session ended before the client answered", "{response}");
    assert_eq!(code, Some(0));
}

#[test]
fn calls_that_never_end_fail_after_the_grace_period() {
    let is_failed = |answers: &[Value]| {
        let error = json!({"code": -32603, "message": "the server is shutting down"});
        assert_eq!(answers, [json!({"jsonrpc": "2.0", "id": 1, "error": error})]);
    };
    for signal in [false, true] {
        let mut server = Running::start(fixture().args(["--grace", "100"]));
        server.send(&call(1, "wait", json!({"milliseconds": 3_600_000})));
        server.send(&call(2, "add", json!({"a": 1, "b": 2})));
        assert_eq!(server.receive()["id"], 2);
        if signal {
            terminate(&server.child);
            let mut rest = Vec::new();
            server.stdout.read_to_end(&mut rest).unwrap();
            is_failed(&lines(&rest));
            assert_eq!(server.child.wait().unwrap().code(), Some(0));
        } else {
            let (answers, code) = server.end();
            is_failed(&answers);
            assert_eq!(code, Some(0));
        }
    }
}

#[test]
fn a_signal_lets_calls_in_flight_finish() {
    // `timeout` sends its signal to the process, and to its group.
    for signals in [1, 2] {
        let mut server = Running::start(&mut fixture());
        server.send(&call(1, "wait", json!({"milliseconds": 300})));
        server.send(&call(2, "add", json!({"a": 1, "b": 2})));
        assert_eq!(server.receive()["id"], 2);
        for _ in 0..signals {
            terminate(&server.child);
        }
        assert_eq!(text(&server.receive()), "waited 300 ms");
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
    }
}

/// A function that blocks its thread cannot keep the process alive.
#[test]
fn a_signal_ends_a_blocked_server() {
    for (signals, grace, expected) in
        [(1, "100", "the shutdown takes too long"), (2, "60000", "because of a second signal")]
    {
        let mut server = Running::start(fixture().env("RUST_LOG", "warn").args(["--grace", grace]));
        server.send(&call(1, "add", json!({"a": 1, "b": 2})));
        server.receive();
        server.send(&call(2, "hang", json!({})));
        for _ in 0..signals {
            thread::sleep(Duration::from_millis(400));
            terminate(&server.child);
        }
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        let mut log = String::new();
        server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.contains(expected), "{log}");
    }
}

/// Before the first call runs, signal handling is installed and the response to `initialize` is written, even if the
/// call arrives together with `initialize`.
#[test]
fn a_signal_ends_a_server_blocked_by_its_first_call() {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    for delay in [0, 200] {
        let mut server = Running::start(fixture().args(["--grace", "100"]));
        thread::sleep(Duration::from_millis(delay));
        server.send(&format!("{initialize}\n{}", call(2, "hang", json!({}))));
        assert_eq!(server.receive()["id"], 1);
        thread::sleep(Duration::from_millis(300));
        terminate(&server.child);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_disconnected_client_is_not_an_error() {
    let mut server = Running::start(fixture().args(["--grace", "100"]));
    server.send(&call(1, "wait", json!({"milliseconds": 50})));
    let Running { mut child, stdin, stdout, _limit } = server;
    drop(stdout);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn terminate(child: &Child) {
    assert!(signal("TERM", child.id()));
}
