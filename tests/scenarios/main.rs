//! The scenarios of the official conformance suite on the transports that it does not cover: stdio in every revision, and
//! HTTP in the revisions before 2025-11-25, including the transport of 2024-11-05.
//!
//! Every message of the server is validated against the official schema of its revision, if the schema is available. The
//! server is the example `everything`, in a process of its own.

mod client;
mod http;
mod play;
mod stdio;

use std::{cell::RefCell, path::Path, process::Command, rc::Rc, time::Duration};

use client::{Client, Wire, go_on};
use http::{Legacy, Site, Streamable};
use mcp_runtime::Revision;
use mcp_tests::schemas::Official;
use play::SCENARIOS;
use serde_json::json;
use stdio::Stdio;

/// How long to wait for the server.
const PATIENCE: Duration = Duration::from_secs(20);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_everything"))
}

/// Plays every scenario of a revision, each with a new client, and returns the problems.
fn play_all(revision: Revision, how: &str, connect: impl Fn() -> Box<dyn Wire>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut played = 0;
    let official = Rc::new(RefCell::new(Official::load(revision)));
    for scenario in SCENARIOS.iter().filter(|scenario| (scenario.has)(revision)) {
        let mut client = Client::connect(connect(), revision, Rc::clone(&official));
        let outcome = (scenario.play)(&mut client);
        let found = outcome.err().into_iter().chain(client.end());
        problems.extend(found.map(|problem| format!("{revision} over {how}, {}: {problem}", scenario.name)));
        played += 1;
    }
    assert!(played > 10, "{revision} has only {played} scenarios");
    problems
}

fn check(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn over_stdio_in_every_revision() {
    let problems: Vec<_> = Revision::ALL
        .into_iter()
        .flat_map(|revision| play_all(revision, "stdio", || Box::new(Stdio::start(program()))))
        .collect();
    check(&problems);
}

#[test]
fn over_http_in_every_revision() {
    let site = Site::start(program());
    // 2024-11-05 has a transport of its own.
    let revisions = Revision::ALL.into_iter().filter(|revision| *revision > Revision::V2024_11_05);
    let problems: Vec<_> =
        revisions.flat_map(|revision| play_all(revision, "HTTP", || Box::new(Streamable::new(site.address)))).collect();
    check(&problems);
}

/// Replicas share a key: each continues a request that another one began, and a server with another key does not.
#[test]
fn processes_with_the_same_key_continue_each_others_requests() {
    let (key, new, other) = ("ab".repeat(32), "cd".repeat(32), "ef".repeat(32));
    let connect =
        |command: &mut Command| Client::connect(Box::new(Stdio::run(command)), Revision::V2026_07_28, Rc::default());
    let params = json!({"name": "test_input_required_result_multi_round", "arguments": {}});
    let mut first = connect(Command::new(program()).env("MCP_STATE_KEY", &key));
    let begun = first.request_once("tools/call", params.clone()).unwrap();
    let second = first.request_once("tools/call", go_on(&params, &begun)).unwrap();
    assert_eq!(second["resultType"], "input_required");
    let third = go_on(&params, &second);
    for (what, command, goes_on) in [
        ("the variable", Command::new(program()).env("MCP_STATE_KEY", &key), true),
        ("a new key before it", Command::new(program()).env("MCP_STATE_KEY", format!("{new},{key}")), true),
        ("the option", Command::new(program()).args(["--state-key", &key]), true),
        (
            "the option over the variable",
            Command::new(program()).env("MCP_STATE_KEY", &key).args(["--state-key", &other]),
            false,
        ),
        ("another key", Command::new(program()).env("MCP_STATE_KEY", &other), false),
        ("a key of its own", &mut Command::new(program()), false),
    ] {
        let mut client = connect(command);
        let answered = client.request_once("tools/call", third.clone());
        if goes_on {
            assert_eq!(answered.unwrap()["resultType"], "complete", "{what}");
        } else {
            assert_eq!(answered.unwrap_err().code(), -32602, "{what}");
        }
        assert_eq!(client.end(), [] as [String; 0]);
    }
}

#[test]
fn over_the_older_http_transport() {
    let site = Site::start(program());
    check(&play_all(Revision::V2024_11_05, "HTTP with SSE", || Box::new(Legacy::open(site.address))));
}
