//! The scenarios of the official conformance suite on the transports that it does not cover: stdio in every revision,
//! and HTTP in the revisions before 2025-11-25, including the transport of 2024-11-05.
//!
//! Every message of the server is validated against the official schema of its revision, if the schema is available.
//! The server is the example `everything`, in a separate process.

mod client;
mod http;
mod play;
mod stdio;

use std::{path::Path, process::Command, thread, time::Duration};

use client::{Client, Transport, next_round};
use http::{HttpServer, Legacy, Streamable};
use mcp_runtime::Revision;
use play::SCENARIOS;
use serde_json::json;
use stdio::Stdio;

/// The time to wait for a message of the server.
const TIMEOUT: Duration = Duration::from_secs(20);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_everything"))
}

/// Plays every scenario of a revision, each with a new client, and returns the problems.
fn play_all(revision: Revision, transport: &str, connect: impl Fn() -> Box<dyn Transport>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut played = 0;
    for scenario in SCENARIOS.iter().filter(|scenario| (scenario.applies_to)(revision)) {
        let mut client = Client::connect(connect(), revision);
        let outcome = (scenario.play)(&mut client);
        let found = outcome.err().into_iter().chain(client.end());
        problems.extend(found.map(|problem| format!("{revision} over {transport}, {}: {problem}", scenario.name)));
        played += 1;
    }
    assert!(played > 10, "{revision} has only {played} scenarios");
    problems
}

fn check(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn scenarios_succeed_over_stdio() {
    let play = |revision| play_all(revision, "stdio", || Box::new(Stdio::start(program())));
    let problems: Vec<_> = thread::scope(|scope| {
        let revisions = Revision::ALL.map(|revision| scope.spawn(move || play(revision)));
        revisions.into_iter().flat_map(|playing| playing.join().expect("all scenarios end")).collect()
    });
    check(&problems);
}

#[test]
fn scenarios_succeed_over_streamable_http() {
    let server = HttpServer::start(program());
    // 2024-11-05 has a different transport.
    let revisions = Revision::ALL.into_iter().filter(|revision| *revision > Revision::V2024_11_05);
    let problems: Vec<_> = revisions
        .flat_map(|revision| play_all(revision, "HTTP", || Box::new(Streamable::new(server.address))))
        .collect();
    check(&problems);
}

/// Replicas that share a key continue each other's requests. A server with another key rejects them.
#[test]
fn processes_with_the_same_key_continue_each_others_requests() {
    let (key, new, other) = ("ab".repeat(32), "cd".repeat(32), "ef".repeat(32));
    let connect = |command: &mut Command| Client::connect(Box::new(Stdio::run(command)), Revision::V2026_07_28);
    let params = json!({"name": "test_input_required_result_multi_round", "arguments": {}});
    let mut first = connect(Command::new(program()).env("MCP_STATE_KEY", &key));
    let begun = first.request_once("tools/call", params.clone()).unwrap();
    let second = first.request_once("tools/call", next_round(&params, &begun)).unwrap();
    assert_eq!(second["resultType"], "input_required");
    let third = next_round(&params, &second);
    for (case, command, is_accepted) in [
        ("the environment variable", Command::new(program()).env("MCP_STATE_KEY", &key), true),
        ("a rotated key", Command::new(program()).env("MCP_STATE_KEY", format!("{new},{key}")), true),
        ("the option", Command::new(program()).args(["--state-key", &key]), true),
        (
            "the option overrides the environment variable",
            Command::new(program()).env("MCP_STATE_KEY", &key).args(["--state-key", &other]),
            false,
        ),
        ("another key", Command::new(program()).env("MCP_STATE_KEY", &other), false),
        ("a generated key", &mut Command::new(program()), false),
    ] {
        let mut client = connect(command);
        let response = client.request_once("tools/call", third.clone());
        if is_accepted {
            assert_eq!(response.unwrap()["resultType"], "complete", "{case}");
        } else {
            assert_eq!(response.unwrap_err().code(), -32602, "{case}");
        }
        assert_eq!(client.end(), [] as [String; 0]);
    }
}

#[test]
fn scenarios_succeed_over_the_legacy_http_transport() {
    let server = HttpServer::start(program());
    check(&play_all(Revision::V2024_11_05, "HTTP with SSE", || Box::new(Legacy::open(server.address))));
}
