//! Tests of the application without a network.

use std::{net::SocketAddr, time::Duration};

use axum::{Extension, body::Body, extract::ConnectInfo, http::Request, response::Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::app;

/// Calls a tool as a client of 2026-07-28, and returns the messages of the response.
async fn call(app: &axum::Router, name: &str, arguments: Value, headers: &[(&str, &str)]) -> Vec<Value> {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": "tea",
        },
    }});
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app.clone().oneshot(request.body(Body::from(message.to_string())).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&body).unwrap();
    body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok()).collect()
}

async fn get_home(app: &axum::Router) -> String {
    let response = app.clone().oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.into()).unwrap()
}

/// axum's `nest_service` passes both paths to the service.
#[tokio::test]
async fn a_slash_at_the_end_of_the_path_is_ignored() {
    let app = app().unwrap().0;
    for path in ["/mcp", "/mcp/"] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1.0.0"},
        }});
        let request = Request::post(path)
            .header("host", "localhost")
            .header("authorization", "Bearer ada-secret")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let response = app.clone().oneshot(request.body(Body::from(message.to_string())).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn tools_can_read_the_user_and_the_headers() {
    let app = app().unwrap().0;
    for (headers, is_error, text) in [
        (
            &[("authorization", "Bearer ada-secret"), ("user-agent", "curl/8")][..],
            false,
            "Ada, with curl/8 at an unknown address",
        ),
        (&[("authorization", "Bearer bob-secret")], false, "Bob, with an unknown program at an unknown address"),
        (&[], true, "sign in first"),
    ] {
        let answers = call(&app, "whoami", json!({}), headers).await;
        let result = &answers[0]["result"];
        assert_eq!((result["isError"] == true, &result["content"][0]["text"]), (is_error, &json!(text)), "{answers:?}");
    }
}

/// Sends a message to a session of 2025-11-25, or without one.
async fn send(app: &axum::Router, method: &str, session: Option<&str>, user: &str, message: Value) -> Response {
    let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    if !user.is_empty() {
        request = request.header("authorization", format!("Bearer {user}"));
    }
    let request = request
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Body::from(message.to_string()));
    app.clone().oneshot(request.unwrap()).await.unwrap()
}

#[tokio::test]
async fn strangers_are_refused() {
    let app = app().unwrap().0;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1.0.0"},
    }});
    let refused = send(&app, "POST", None, "wrong", initialize.clone()).await;
    assert_eq!(refused.status(), 401);
    assert!(refused.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer "));

    for (owner, strangers) in [("ada-secret", ["bob-secret", ""]), ("", ["ada-secret", "bob-secret"])] {
        let opened = send(&app, "POST", None, owner, initialize.clone()).await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap();
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        for stranger in strangers {
            for method in ["POST", "GET", "DELETE"] {
                let refused = send(&app, method, Some(session), stranger, ping.clone()).await;
                assert_eq!(refused.status(), 404, "{method} of {stranger:?} in the session of {owner:?}");
            }
        }
        assert_eq!(send(&app, "POST", Some(session), owner, ping).await.status(), 200);
    }
}

#[tokio::test]
async fn tools_can_read_the_address() {
    let app = app().unwrap().0.layer(Extension(ConnectInfo(SocketAddr::from(([192, 0, 2, 7], 5000)))));
    let answers = call(&app, "whoami", json!({}), &[("authorization", "Bearer ada-secret")]).await;
    assert_eq!(answers[0]["result"]["content"][0]["text"], "Ada, with an unknown program at 192.0.2.7");
}

/// Calls in flight continue during the grace period, and end with it.
#[tokio::test]
async fn calls_in_flight_survive_the_shutdown() {
    for (grace, expected) in [(Duration::from_secs(600), Some("3 cups of tea")), (Duration::ZERO, None)] {
        let (app, mcp) = app().unwrap();
        let brewing = tokio::spawn({
            let app = app.clone();
            async move { call(&app, "brew", json!({"cups": 3}), &[]).await }
        });
        while get_home(&app).await.starts_with('0') {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let shutdown = tokio::spawn(async move { mcp.graceful_shutdown(grace).await });
        tokio::task::yield_now().await;
        if expected.is_some() {
            let rejected = call(&app, "whoami", json!({}), &[]).await;
            assert_eq!(rejected[0]["error"]["message"], "too many calls in flight");
        }
        let messages = brewing.await.unwrap();
        let text = messages.last().and_then(|message| message["result"]["content"][0]["text"].as_str());
        assert_eq!(text, expected, "{messages:?}");
        shutdown.await.unwrap();
    }
}

#[tokio::test]
async fn progress_precedes_the_result() {
    let app = app().unwrap().0;
    let messages = call(&app, "brew", json!({"cups": 2}), &[]).await;
    let (result, progress) = messages.split_last().unwrap();
    let cups: Vec<_> = progress.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(cups, [1, 2].map(Some));
    assert_eq!(result["result"]["content"][0]["text"], "2 cups of tea");
    assert_eq!(get_home(&app).await, "2 cups of tea so far; the MCP server is at /mcp\n");
}
