//! 2025-03-26 to 2025-11-25: sessions.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

use std::time::Duration;

use mcp_runtime::{HttpOptions, tool};
use serde_json::{Value, json};

use super::{
    client::{Connection, Endpoint, Session, send_body, send_head, soon},
    request::{Request, initialize},
    serve, serve_with,
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let (_, endpoint) = serve().await;
    for version in VERSIONS {
        let session = endpoint.session(version).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let accepted = endpoint.send(&session.post(&initialized)).await;
        assert_eq!((accepted.status, accepted.body.len()), (202, 0), "{version}");
        let called = endpoint.send(&session.call(1, "whoami")).await;
        assert_eq!(called.text(), r#"None Some("127.0.0.1") Some("test")"#);
        assert_eq!(called.header("mcp-session-id"), None);

        let ended = endpoint.send(&session.delete()).await;
        assert_eq!((ended.status, ended.body.len()), (204, 0), "{version}");
        for request in [session.ping(), session.get(), session.delete(), session.call(2, "quick")] {
            assert_eq!(endpoint.send(&request).await.outcome(), (404, -32600), "{version} {request:?}");
        }
    }
}

/// Ids have at least 128 random bits, in visible ASCII.
#[tokio::test]
async fn ids_cannot_be_guessed() {
    let (_, endpoint) = serve().await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(endpoint.session("2025-11-25").await.id);
    }
    mcp_tests::assert_unguessable(&ids);
}

/// Each row changes a valid request.
#[tokio::test]
async fn requests_are_checked() {
    let (_, endpoint) = serve().await;
    let session = endpoint.session("2025-06-18").await;
    let other = endpoint.session("2025-06-18").await;
    let good = || session.ping();
    let notification = || session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let long = "x".repeat(1000);
    for (name, request, expected) in [
        ("good", good(), (200, 0)),
        ("no session", session.call(1, "quick").without("mcp-session-id"), (400, -32602)),
        (
            "no session, no version",
            session.call(1, "quick").without("mcp-session-id").without("mcp-protocol-version"),
            (400, -32602),
        ),
        ("a notification without a session", notification().without("mcp-session-id"), (400, -32600)),
        ("a stream without a session", session.get().without("mcp-session-id"), (405, -32600)),
        ("a DELETE without a session", session.delete().without("mcp-session-id"), (400, -32600)),
        ("an unknown session", good().with("mcp-session-id", "AAAA"), (404, -32600)),
        ("a long unknown session", good().with("mcp-session-id", &long), (404, -32600)),
        ("an empty session", good().with("mcp-session-id", ""), (404, -32600)),
        ("a session that is not ASCII", good().with("mcp-session-id", "ü"), (404, -32600)),
        ("two sessions", good().and("mcp-session-id", &other.id), (404, -32600)),
        ("no version", good().without("mcp-protocol-version"), (200, 0)),
        ("another version with sessions", good().with("mcp-protocol-version", "2025-03-26"), (200, 0)),
        ("an unknown version", good().with("mcp-protocol-version", "2025-01-01"), (400, -32022)),
        ("an invalid version", good().with("mcp-protocol-version", "latest"), (400, -32022)),
        (
            "an unknown version and an unknown session",
            good().with("mcp-protocol-version", "2025-01-01").with("mcp-session-id", "AAAA"),
            (400, -32022),
        ),
        (
            "an unknown version of a call",
            session.call(1, "quick").with("mcp-protocol-version", "2025-01-01"),
            (400, -32022),
        ),
        (
            "an unknown version of a notification",
            notification().with("mcp-protocol-version", "2025-01-01"),
            (400, -32600),
        ),
        ("two versions", good().and("mcp-protocol-version", "2025-06-18"), (400, -32020)),
        ("a stream of an unknown version", session.get().with("mcp-protocol-version", "2025-01-01"), (400, -32600)),
        ("a DELETE of an unknown version", session.delete().with("mcp-protocol-version", "2025-01-01"), (400, -32600)),
        ("a second initialize", session.wrap(initialize("2025-06-18")), (200, -32600)),
        ("an unknown method", good().change(|message| message["method"] = json!("frobnicate")), (200, -32601)),
        ("invalid JSON", good().body("{"), (400, -32700)),
        ("not a message", good().body("1"), (400, -32600)),
        ("a batch", good().body(format!("[{}]", ping(1))), (400, -32600)),
        ("no content type", good().without("content-type"), (415, -32600)),
        ("another content type", good().with("content-type", "text/plain"), (415, -32600)),
        ("a content type with a charset", good().with("content-type", "application/json; charset=utf-8"), (200, 0)),
        ("no content coding", good().with("content-encoding", "Identity"), (200, 0)),
        ("a compressed body", good().with("content-encoding", "gzip"), (415, -32600)),
        ("a body that is compressed twice", good().with("content-encoding", "identity, br"), (415, -32600)),
        (
            "two content codings",
            good().with("content-encoding", "identity").and("content-encoding", "gzip"),
            (415, -32600),
        ),
        ("a content coding that is not ASCII", good().with("content-encoding", "ü"), (415, -32600)),
        ("an accept without events", good().with("accept", "application/json"), (406, -32600)),
        ("an accept without JSON", good().with("accept", "text/event-stream"), (406, -32600)),
        ("an accept of anything", good().with("accept", "*/*"), (200, 0)),
        ("a stream with an accept of JSON only", session.get().with("accept", "application/json"), (406, -32600)),
        ("another method", session.wrap(Request::new("PUT")), (405, -32600)),
        ("a response", session.post(&json!({"jsonrpc": "2.0", "id": 7, "result": {}})), (202, 0)),
        (
            "a response without a session",
            session.post(&json!({"jsonrpc": "2.0", "id": 7, "result": {}})).without("mcp-session-id"),
            (400, -32600),
        ),
        ("an unknown notification", session.post(&json!({"jsonrpc": "2.0", "method": "x"})), (202, 0)),
        ("another path", good().path("/other"), (404, -32600)),
        ("a header across lines", good().with("x-a", "b\r\n c"), (400, 0)),
        ("a header with a NUL byte", good().with("x-a", "b\0c"), (400, 0)),
        ("too many headers", (0..200).fold(good(), |request, n| request.with(&format!("x-{n}"), "1")), (431, 0)),
        ("headers that are too long", good().with("x-long", &"x".repeat(16 << 10)), (431, 0)),
        ("headers that are long", good().with("x-long", &"x".repeat(15 << 10)), (200, 0)),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!(response.outcome(), expected, "{name}: {response:?}");
    }
    let refused = endpoint.send(&good().with("content-encoding", "gzip")).await;
    assert_eq!(refused.header("accept-encoding"), Some("identity"));
    let refused = endpoint.send(&session.wrap(Request::new("PUT"))).await;
    assert_eq!(refused.header("allow"), Some("GET, POST, DELETE"));
    assert!(session.is_alive().await && other.is_alive().await);
}

/// Input of a client cannot become a header of the response.
#[tokio::test]
async fn headers_cannot_be_injected() {
    let (_, endpoint) = serve().await;
    let evil = "x\r\nSet-Cookie: evil=1\r\n\r\n<html>";
    for request in [
        initialize(evil),
        initialize("2025-11-25").change(|message| message["id"] = json!(evil)),
        initialize("2025-11-25").change(|message| message["method"] = json!(evil)),
        super::request::call(evil).with("mcp-name", "=?base64?eA0KU2V0LUNvb2tpZTogZXZpbD0xDQoNCjxodG1sPg==?="),
        initialize("2025-11-25").path("/mcp%0d%0aSet-Cookie:%20evil=1"),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!(response.header("set-cookie"), None);
        assert!(response.json().is_object());
    }
}

#[tokio::test]
async fn an_unknown_version_is_answered_with_the_newest_that_has_sessions() {
    let (_, endpoint) = serve().await;
    let opened = endpoint.send(&initialize("2030-01-01")).await;
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(opened.header("mcp-protocol-version"), Some("2025-11-25"));
    assert!(opened.header("mcp-session-id").is_some());
    let refused = endpoint.send(&initialize("2025-11-25").change(|message| message["params"] = json!({}))).await;
    assert_eq!((refused.outcome(), refused.header("mcp-session-id")), ((200, -32602), None));
}

#[tokio::test]
async fn batches_belong_to_2025_03_26() {
    let (gate, endpoint) = serve().await;
    for version in VERSIONS {
        let session = endpoint.session(version).await;
        let call =
            |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
        let batch = json!([ping(1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, call(2, "waits"), 7]);
        gate.open();
        let response = endpoint.send(&session.post(&batch)).await;
        if version != "2025-03-26" {
            assert_eq!(response.outcome(), (400, -32600));
            gate.permits.forget_permits(1);
            continue;
        }
        let answers = response.json();
        let mut ids: Vec<_> = answers.as_array().unwrap().iter().map(|response| response["id"].as_u64()).collect();
        ids.sort_unstable();
        assert_eq!((response.status, ids), (200, vec![None, Some(1), Some(2)]));
        for (batch, status) in [
            (json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]), 202),
            (json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]), 202),
            (json!([]), 400),
            (json!([1]), 200),
        ] {
            assert_eq!(endpoint.send(&session.post(&batch)).await.status, status, "{batch}");
        }
        // A notification precedes the responses.
        let batch = json!([ping(1), {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "reports_at_once", "_meta": {"progressToken": 1}}}]);
        let messages = endpoint.open(&session.post(&batch)).await.messages().await;
        assert_eq!(messages[0]["method"], "notifications/progress");
        assert_eq!(messages[1].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_duplicate_id_in_flight_is_rejected() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let (first, other) = (session.call(1, "waits"), session.ping());
    let second = async {
        gate.has_begun(1).await;
        let refused = endpoint.send(&session.call(1, "quick")).await;
        assert_eq!(refused.outcome(), (200, -32600));
        assert_eq!(refused.json()["id"], 1);
        assert_eq!(endpoint.send(&other).await.status, 200);
        // Ids of different sessions are independent.
        let other_session = endpoint.session("2025-11-25").await;
        assert_eq!(endpoint.send(&other_session.call(1, "quick")).await.text(), "quick");
        gate.open();
    };
    let (first, ()) = tokio::join!(endpoint.send(&first), second);
    assert_eq!(first.text(), "waited");
    assert_eq!(endpoint.send(&session.call(1, "quick")).await.text(), "quick");
}

/// Wait a little.
#[tool]
async fn nap() -> &'static str {
    tokio::time::sleep(Duration::from_millis(20)).await;
    "awake"
}

/// Of two concurrent requests with one id, the second is rejected unless the first has ended. Both are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_with_one_id_are_both_answered() {
    let endpoint = Endpoint::start(super::server().1.with::<nap>(), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    for id in 0..200 {
        let request = session.call(id, "nap");
        let (one, other) = tokio::join!(soon(endpoint.send(&request)), soon(endpoint.send(&request)));
        let outcomes = [one.outcome(), other.outcome()];
        assert!(outcomes.contains(&(200, 0)), "{outcomes:?}");
        assert!(outcomes.iter().all(|(_, code)| [0, -32600].contains(code)), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_call_is_cancelled_by_another_request() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let other_session = endpoint.session("2025-11-25").await;
    let waiting = session.call(1, "waits");
    let cancel = async {
        gate.has_begun(1).await;
        assert_eq!(endpoint.send(&other_session.cancel(1)).await.status, 202);
        assert!(session.is_alive().await);
        assert_eq!(gate.dropped.load(super::Ordering::SeqCst), 0);
        assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    };
    // The response is an event stream without events.
    let (response, ()) = tokio::join!(endpoint.open(&waiting), cancel);
    assert_eq!(response.status, 200);
    let mut response = response;
    assert_eq!(response.messages().await, Vec::<Value>::new());
    gate.has_dropped(1).await;

    // The same holds if the response is a stream already.
    let mut streamed = endpoint.open(&session.call(2, "reports")).await;
    assert!(streamed.message().await.is_some());
    assert_eq!(endpoint.send(&session.cancel(2)).await.status, 202);
    assert_eq!(streamed.messages().await, Vec::<Value>::new());
    gate.has_dropped(2).await;
}

#[tokio::test]
async fn a_disconnected_client_cancels_nothing() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let mut connection = endpoint.connect().await;
    connection.write(&session.call(1, "waits").bytes()).await;
    gate.has_begun(1).await;
    drop(connection);
    for id in 0..20 {
        assert_eq!(endpoint.send(&session.call(100 + id, "quick")).await.status, 200);
    }
    assert_eq!(endpoint.send(&session.call(1, "quick")).await.outcome(), (200, -32600), "the call is still in flight");
    gate.open();
    gate.has_dropped(1).await;
}

#[tokio::test]
async fn closing_a_session_fails_its_calls_and_ends_its_streams() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let mut general = endpoint.open(&session.get()).await;
    let mut streamed = endpoint.open(&session.call(1, "reports")).await;
    assert!(streamed.message().await.is_some());
    assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    assert_eq!(soon(general.messages()).await, Vec::<Value>::new());
    let failed = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "the session has ended"}});
    assert_eq!(soon(streamed.messages()).await, [failed]);
    gate.has_dropped(1).await;
}

/// A client that waits for a response gets exactly one, however the call ends.
#[tokio::test]
async fn calls_that_the_server_ends_are_answered_once() {
    let batch = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "waits"}});
    for stream_after in [Duration::ZERO, Duration::from_secs(600)] {
        let (gate, mut endpoint) = serve_with(HttpOptions::default().stream_after(stream_after)).await;
        let session = endpoint.session("2025-03-26").await;
        let messages = [session.call(1, "waits"), session.post(&json!([batch(2), batch(3)]))];
        let connections = [endpoint.connect().await, endpoint.connect().await];
        let waiting = connections.into_iter().zip(messages);
        let waiting = waiting.map(|(connection, call)| tokio::spawn(async move { responses(connection, &call).await }));
        let waiting: Vec<_> = waiting.collect();
        gate.has_begun(3).await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        let mut ids = Vec::new();
        for waiting in waiting {
            for response in soon(waiting).await.unwrap() {
                assert_eq!(response["error"]["message"], "the session has ended");
                ids.push(response["id"].as_u64().unwrap());
            }
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3], "{stream_after:?}");
        gate.has_dropped(3).await;
        drop(session);
        endpoint.stop();
    }
}

/// Returns the responses to the requests of a message.
async fn responses(connection: Connection, request: &Request) -> Vec<Value> {
    let mut response = connection.open(request).await;
    let messages = match response.header("content-type") {
        Some("text/event-stream") => response.messages().await,
        _ => vec![response.full().await.0.json()],
    };
    let parts = messages.into_iter().flat_map(|message| match message {
        Value::Array(batch) => batch,
        message => vec![message],
    });
    parts.filter(|message| message.get("id").is_some()).collect()
}

#[tokio::test]
async fn calls_are_answered_when_the_server_shuts_down() {
    let (gate, server) = super::server();
    let options = HttpOptions::default().stream_after(Duration::ZERO);
    let endpoint = Endpoint::start(server.shutdown_grace(Duration::from_millis(50)), options).await;
    let session = endpoint.session("2025-11-25").await;
    let mut streams =
        [endpoint.open(&session.call(1, "waits")).await, endpoint.open(&super::request::call("waits")).await];
    gate.has_begun(2).await;
    drop(session);
    let stopped = tokio::spawn(endpoint.stopped());
    for stream in &mut streams {
        let messages = stream.messages().await;
        let errors: Vec<_> = messages.iter().map(|message| message["error"]["message"].as_str()).collect();
        assert_eq!(errors, [Some("the server is shutting down")]);
    }
    stopped.await.unwrap();
}

#[tokio::test]
async fn a_session_expires_unless_it_has_a_call_or_a_stream() {
    let idle = Duration::from_millis(500);
    let (gate, endpoint) = serve_with(HttpOptions::default().session_idle(idle)).await;
    let (calling, listening, abandoned, disconnected) = (
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
    );
    let mut call = endpoint.open(&calling.call(1, "reports")).await;
    assert!(call.message().await.is_some());
    let listener = endpoint.open(&listening.get()).await;
    // The call continues after its client has disconnected.
    let mut connection = endpoint.connect().await;
    connection.write(&disconnected.call(1, "waits").bytes()).await;
    gate.has_begun(2).await;
    drop(connection);

    tokio::time::sleep(idle * 2).await;
    assert!(!abandoned.is_alive().await);
    assert!(disconnected.is_alive().await);
    assert!(listening.is_alive().await);
    assert!(calling.is_alive().await);
    gate.open();
    gate.open();
    assert_eq!(call.messages().await.len(), 2);
    drop(listener);
    tokio::time::sleep(idle * 2).await;
    for session in [&calling, &listening, &disconnected] {
        assert!(!session.is_alive().await);
    }
}

#[tokio::test]
async fn an_idle_session_is_evicted_when_there_are_too_many() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_sessions(2)).await;
    let (first, second) = (endpoint.session("2025-11-25").await, endpoint.session("2025-11-25").await);
    assert!(first.is_alive().await);
    let third = endpoint.session("2025-11-25").await;
    assert!(!second.is_alive().await);
    assert!(first.is_alive().await && third.is_alive().await);

    let listening = endpoint.open(&first.get()).await;
    let mut call = endpoint.open(&third.call(1, "reports")).await;
    assert!(call.message().await.is_some());
    let refused = endpoint.send(&initialize("2025-11-25")).await;
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.header("mcp-session-id"), None);
    gate.open();
    assert_eq!(call.messages().await.len(), 2);
    endpoint.session("2025-11-25").await;
    drop(listening);
}

#[tokio::test]
async fn a_session_is_not_evicted_while_the_body_of_its_request_is_received() {
    let (_, endpoint) = serve_with(HttpOptions::default().max_sessions(1)).await;
    let session = endpoint.session("2025-11-25").await;
    let request = session.call(1, "quick").with("expect", "100-continue");
    let connection = send_head(&endpoint, &request).await;
    assert_eq!(endpoint.send(&initialize("2025-11-25")).await.status, 503);
    assert_eq!(send_body(connection, &request).await.status, 200);
    assert!(session.is_alive().await);
}

/// Nothing runs for a session that has ended while the body of the message was received.
#[tokio::test]
async fn a_body_that_arrives_after_the_end_of_its_session_is_refused() {
    let (gate, endpoint) = serve().await;
    let legacy = |session: &Session<'_>| session.call(1, "waits").without("mcp-protocol-version");
    for (kind, build) in [
        ("a call", (|session| session.call(1, "waits")) as fn(&Session<'_>) -> Request),
        ("a call without a version", legacy),
        ("a request", |session| session.ping()),
        ("a cancellation", |session| session.cancel(1)),
        ("a batch", |session| session.post(&json!([ping(1)]))),
        ("not JSON", |session| session.ping().body("{")),
    ] {
        let session = endpoint.session("2025-03-26").await;
        let request = build(&session).with("expect", "100-continue");
        let connection = send_head(&endpoint, &request).await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        let unknown = endpoint.send(&session.ping()).await;
        let refused = send_body(connection, &request).await;
        assert_eq!((refused.outcome(), &refused.body), ((404, -32600), &unknown.body), "{kind}");
    }
    assert_eq!(gate.begun.load(super::Ordering::SeqCst), 0);
}

/// Clients probe for a stream before they open a session.
#[tokio::test]
async fn a_get_without_a_session_is_not_allowed() {
    let (_, endpoint) = serve().await;
    let probe = || Request::new("GET").with("accept", "text/event-stream");
    for (name, request) in [
        ("no version", probe()),
        ("a version with sessions", probe().with("mcp-protocol-version", "2025-06-18")),
        ("a version without sessions", probe().with("mcp-protocol-version", "2026-07-28")),
        ("an unknown version", probe().with("mcp-protocol-version", "2025-01-01")),
        ("any accept", Request::new("GET")),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!((response.outcome(), response.header("allow")), ((405, -32600), Some("POST")), "{name}");
    }
    let session = endpoint.session("2025-06-18").await;
    assert_eq!(endpoint.open(&session.get()).await.status, 200);
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_path_is_ignored() {
    for path in ["/mcp", "/mcp/", "/", "/a/b/"] {
        let (_, endpoint) = super::serve_with(mcp_runtime::HttpOptions::default().path(path)).await;
        let without = path.trim_end_matches('/');
        let other = format!("{without}/");
        for path in [path, without, &other].into_iter().filter(|path| !path.is_empty()) {
            let response = endpoint.send(&super::request::call("quick").path(path)).await;
            assert_eq!((response.status, response.text().as_str()), (200, "quick"), "{path}");
        }
        for path in ["/mcp//", "/other", "/mcpx", "//"] {
            assert_eq!(endpoint.send(&super::request::call("quick").path(path)).await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn a_byte_order_mark_before_a_body_is_skipped() {
    let (_, endpoint) = serve().await;
    let marked = |request: Request| {
        let (.., body) = request.clone().into_parts();
        request.body(["\u{feff}".as_bytes(), &body].concat())
    };
    assert_eq!(endpoint.send(&marked(super::request::call("quick"))).await.text(), "quick");
    assert_eq!(endpoint.send(&marked(initialize("2025-06-18"))).await.status, 200);
    let session = endpoint.session("2025-06-18").await;
    assert_eq!(endpoint.send(&marked(session.call(1, "quick"))).await.text(), "quick");
    let twice = marked(marked(session.call(1, "quick")));
    assert_eq!(endpoint.send(&twice).await.outcome(), (400, -32700));
}
