//! Tests of the application without a network.

use std::{net::SocketAddr, time::Duration};

use axum::{Extension, Router, body::Body, extract::ConnectInfo, http::Request, response::Response};
use http_body_util::BodyExt;
use mcp_runtime::{Revision, testing::TestClient};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{DRAIN_DELAY, app};

/// Connects a client with a token, if it has one.
fn client(app: &Router, token: Option<&str>) -> TestClient {
    let client = TestClient::over_http(app.clone(), "/mcp", Revision::V2026_07_28);
    match token {
        Some(token) => client.with_header("authorization", &format!("Bearer {token}")),
        None => client,
    }
}

/// Returns the status and the body of a page.
async fn get(app: &Router, path: &str) -> (u16, String) {
    let response = app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.into()).unwrap())
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

/// Below another router, the service sees a path without the prefix.
#[tokio::test]
async fn the_application_can_be_nested() {
    let app = app().unwrap().0;
    let nested = Router::new().nest("/tea", app.clone()).nest("/office/tea", app);
    for path in ["/tea/mcp", "/office/tea/mcp"] {
        for revision in Revision::ALL {
            let client = TestClient::over_http(nested.clone(), path, revision);
            let mut client = client.with_header("authorization", "Bearer ada-secret");
            let result = client.call("whoami", ()).await.unwrap();
            assert!(result.text().starts_with("Ada"), "{path} {revision}: {}", result.text());
            assert_eq!(client.tools().await.unwrap().len(), 2, "{path} {revision}");
        }
    }
}

#[tokio::test]
async fn tools_can_read_the_user_and_the_headers() {
    let app = app().unwrap().0;
    let curl = client(&app, Some("ada-secret")).with_header("user-agent", "curl/8");
    for (mut client, is_error, text) in [
        (curl, false, "Ada, with curl/8 at an unknown address"),
        (client(&app, Some("bob-secret")), false, "Bob, with an unknown program at an unknown address"),
        (client(&app, None), true, "sign in first"),
    ] {
        let result = client.call("whoami", ()).await.unwrap();
        assert_eq!((result.is_error(), &*result.text()), (is_error, text));
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
    let answer = client(&app, Some("ada-secret")).call("whoami", ()).await.unwrap();
    assert_eq!(answer.text(), "Ada, with an unknown program at 192.0.2.7");
}

/// Calls in flight continue during the grace period, and end with it.
#[tokio::test]
async fn calls_in_flight_survive_the_shutdown() {
    for (grace, expected) in [(Duration::from_secs(600), Some("3 cups of tea")), (Duration::ZERO, None)] {
        let (app, mcp) = app().unwrap();
        let mut brewer = client(&app, None);
        let brewing = tokio::spawn(async move { brewer.call_with_progress("brew", json!({"cups": 3})).await });
        while get(&app, "/").await.1.starts_with('0') {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let rejected = || async { client(&app, None).call("whoami", ()).await.unwrap_err().message };
        let shutdown = tokio::spawn(async move { mcp.graceful_shutdown(grace).await });
        tokio::task::yield_now().await;
        if expected.is_some() {
            assert_eq!(rejected().await, "the server is shutting down");
        }
        let result = brewing.await.unwrap();
        let text = result.as_ref().ok().map(|(result, _)| result.text());
        assert_eq!(text.as_deref(), expected, "{result:?}");
        shutdown.await.unwrap();
        assert_eq!(rejected().await, "the server is shutting down");
    }
}

/// Load balancers notice that the server shuts down, while it still serves all requests.
#[tokio::test]
async fn the_readiness_check_fails_before_the_shutdown() {
    let (app, mcp) = app().unwrap();
    assert_eq!(get(&app, "/readyz").await.0, 200);
    let draining = tokio::spawn(async move { mcp.drain(DRAIN_DELAY).await });
    tokio::task::yield_now().await;
    assert!(!draining.is_finished());
    assert_eq!(get(&app, "/readyz").await.0, 503);
    assert!(client(&app, Some("ada-secret")).call("whoami", ()).await.is_ok());
    draining.abort();
}

#[tokio::test]
async fn progress_precedes_the_result() {
    let app = app().unwrap().0;
    let (result, updates) = client(&app, None).call_with_progress("brew", json!({"cups": 2})).await.unwrap();
    assert_eq!(updates.iter().map(|update| update.progress).collect::<Vec<_>>(), [1.0, 2.0]);
    assert_eq!(result.text(), "2 cups of tea");
    assert_eq!(get(&app, "/").await.1, "2 cups of tea so far; the MCP server is at /mcp\n");
}
