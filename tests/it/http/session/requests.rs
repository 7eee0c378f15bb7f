//! The checks of requests in sessions and of their bodies.

use mcp_runtime::HttpOptions;
use serde_json::json;

use super::{VERSIONS, ping};
use crate::http::{
    request::{Request, call, initialize},
    serve, serve_with,
};

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
        // Clients in use name the newest version that they support instead of the negotiated one.
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
        call(evil).with("mcp-name", "=?base64?eA0KU2V0LUNvb2tpZTogZXZpbD0xDQoNCjxodG1sPg==?="),
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
        let (_, endpoint) = serve_with(HttpOptions::default().path(path)).await;
        let without = path.trim_end_matches('/');
        let other = format!("{without}/");
        for path in [path, without, &other].into_iter().filter(|path| !path.is_empty()) {
            let response = endpoint.send(&call("quick").path(path)).await;
            assert_eq!((response.status, response.text().as_str()), (200, "quick"), "{path}");
        }
        for path in ["/mcp//", "/other", "/mcpx", "//"] {
            assert_eq!(endpoint.send(&call("quick").path(path)).await.status, 404, "{path}");
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
    assert_eq!(endpoint.send(&marked(call("quick"))).await.text(), "quick");
    assert_eq!(endpoint.send(&marked(initialize("2025-06-18"))).await.status, 200);
    let session = endpoint.session("2025-06-18").await;
    assert_eq!(endpoint.send(&marked(session.call(1, "quick"))).await.text(), "quick");
    let twice = marked(marked(session.call(1, "quick")));
    assert_eq!(endpoint.send(&twice).await.outcome(), (400, -32700));
}
