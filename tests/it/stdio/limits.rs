//! Slow readers, and messages that are too long.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::Child,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::{Running, call, fixture, request, text};

/// A client that has closed its side and reads slowly receives everything, although that takes longer than the grace period.
#[test]
fn a_slow_reader_receives_every_response() {
    let mut server = Running::start(fixture().args(["--grace", "2000"]));
    let long = "x".repeat(100_000);
    for id in 0..8 {
        server.send(&call(id, "echo", json!({"text": long})));
    }
    drop(server.stdin.take());
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(400));
        assert_eq!(text(&server.receive()).len(), 100_000);
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// The process exits with an error if a client has closed its side and never reads.
#[test]
fn a_client_that_stops_reading_does_not_delay_the_exit() {
    let mut server = Running::start(fixture().args(["--grace", "200"]));
    let long = "x".repeat(400_000);
    server.send(&call(1, "echo", json!({"text": long})));
    drop(server.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    let mut why = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("bytes of responses in time"), "{why}");
}

/// The server stops reading from a client that stops reading, so that buffers stay small and nothing is lost.
#[test]
fn slow_readers_get_back_pressure() {
    const CALLS: u64 = 1_000;
    let mut server = Running::start(&mut fixture());
    let mut stdin = server.stdin.take().unwrap();
    let long = "x".repeat(20_000);
    let writer = thread::spawn(move || {
        for id in 0..CALLS {
            stdin.write_all(call(id, "echo", json!({"text": long})).as_bytes()).unwrap();
        }
    });
    // The server has stopped reading when its memory no longer grows.
    let mut memory = resident(&server.child);
    loop {
        thread::sleep(Duration::from_millis(200));
        let now = resident(&server.child);
        if now <= memory {
            break;
        }
        memory = now;
    }
    assert!(!writer.is_finished(), "the server read {CALLS} calls although its output was not read");
    assert!(memory < 64 << 20, "{memory} bytes for a client that does not read");
    let mut seen = vec![false; CALLS as usize];
    for _ in 0..CALLS {
        let id = server.receive()["id"].as_u64().unwrap();
        assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} was answered twice");
    }
    writer.join().unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

/// Returns the resident memory of a process, in bytes.
fn resident(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn an_oversized_line_is_rejected_and_discarded() {
    let mut server = Running::start(&mut fixture());
    let chunk = "x".repeat(1 << 20);
    for _ in 0..40 {
        server.send(&chunk);
    }
    assert!(resident(&server.child) < 64 << 20);
    server.send("\n");
    let refused = server.receive();
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["message"], "invalid request: the message is too large: the limit is 16777216 bytes");
    server.send(&call(1, "add", json!({"a": 1, "b": 2})));
    assert_eq!(text(&server.receive()), "3");
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// Names, URIs and cursors are cut to 200 characters, wherever they come from.
#[test]
fn errors_repeat_little_of_a_message() {
    let mut server = Running::start(&mut fixture());
    let long = "é".repeat(100_000);
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "x", "value": ""}});
    for (method, params) in [
        (long.as_str(), json!({})),
        ("tools/call", json!({"name": long})),
        ("prompts/get", json!({"name": long})),
        ("resources/read", json!({"uri": long})),
        ("tools/list", json!({"cursor": long})),
        ("completion/complete", complete(json!({"type": long}))),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": long}))),
        ("completion/complete", complete(json!({"type": "ref/prompt", "name": long}))),
    ] {
        server.send(&request(1, method, params.clone()));
        let error = server.receive()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(&format!("{}…", "é".repeat(200))), "{method}: {error}");
        assert!(error.to_string().len() < 1200, "{method}: {error}");
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}
