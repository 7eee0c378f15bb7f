//! 2024-11-05: a stream for what the server says, a path for what the client says.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{sync::Arc, time::Duration};

use mcp_runtime::HttpOptions;
use serde_json::{Value, json};

use super::{
    Stage,
    client::{Answer, Site},
    request::{Request, initialize},
    site_with,
};

async fn legacy() -> (Arc<Stage>, Site) {
    site_with(HttpOptions::default().legacy_sse(true)).await
}

fn sse() -> Request {
    Request::new("GET").path("/sse").with("accept", "text/event-stream")
}

fn call(id: u64, name: &str) -> Request {
    let params = json!({"name": name, "_meta": {"progressToken": id}});
    Request::post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// Opens a stream, and gives the path that it names.
async fn open(site: &Site) -> (Answer, String) {
    let mut stream = site.open(&sse()).await;
    assert_eq!((stream.status, stream.header("x-accel-buffering")), (200, Some("no")));
    let endpoint = stream.event().await.unwrap();
    assert_eq!((endpoint.name.as_deref(), endpoint.id), (Some("endpoint"), None));
    (stream, endpoint.data)
}

/// Opens a session of a version.
async fn session(site: &Site, version: &str) -> (Answer, String) {
    let (mut stream, path) = open(site).await;
    let accepted = site.send(&initialize(version).path(&path)).await;
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    let answer = stream.event().await.unwrap();
    assert_eq!(answer.name.as_deref(), Some("message"));
    assert_eq!(answer.json()["result"]["protocolVersion"], version);
    (stream, path)
}

async fn next(stream: &mut Answer) -> Value {
    stream.message().await.unwrap()
}

#[tokio::test]
async fn it_is_there_on_request_only() {
    let (_, site) = site_with(HttpOptions::default()).await;
    assert_eq!(site.send(&sse()).await.status, 404);
    assert_eq!(site.send(&call(1, "quick").path("/message?sessionId=x")).await.status, 404);
}

#[tokio::test]
async fn messages_are_answered_on_the_stream() {
    let (stage, site) = legacy().await;
    let (mut stream, path) = session(&site, "2024-11-05").await;
    for (id, name, text) in [(1, "quick", "quick"), (2, "whoami", r#"None Some("127.0.0.1") Some("test")"#)] {
        assert_eq!(site.send(&call(id, name).path(&path)).await.status, 202);
        let answer = next(&mut stream).await;
        assert_eq!((answer["id"].as_u64(), answer["result"]["content"][0]["text"].as_str()), (Some(id), Some(text)));
    }
    // Two at once, progress, a cancellation.
    assert_eq!(site.send(&call(3, "tells").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["params"]["progressToken"], 3);
    assert_eq!(site.send(&call(4, "waits").path(&path)).await.status, 202);
    stage.has_begun(2).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    assert_eq!(site.send(&Request::post(&cancel).path(&path)).await.status, 202);
    stage.has_dropped(1).await;
    stage.open();
    assert_eq!(next(&mut stream).await["id"], 4);
    // The endpoint of the newer transports is there as well.
    assert_eq!(site.send(&super::request::call("quick")).await.text(), "quick");
}

#[tokio::test]
async fn requests_are_checked() {
    let (_, site) = legacy().await;
    let (mut stream, path) = session(&site, "2024-11-05").await;
    let good = || call(1, "quick").path(&path);
    for (name, request, status) in [
        ("no session", good().path("/message"), 404),
        ("an unknown session", good().path("/message?sessionId=AAAA"), 404),
        ("another content type", good().with("content-type", "text/plain"), 415),
        ("another method", Request::new("GET").path(&path), 405),
        ("another method for the stream", call(1, "quick").path("/sse"), 405),
        ("another host", good().with("host", "evil.example"), 403),
        ("no host", good().without("host"), 400),
        ("another origin", good().with("origin", "https://evil.example"), 403),
        ("a stream for another host", sse().with("host", "evil.example"), 403),
    ] {
        assert_eq!(site.send(&request).await.status, status, "{name}");
    }
    for (path, allowed) in [("/sse", "GET"), ("/message", "POST")] {
        let refused = site.send(&Request::new("PUT").path(path)).await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)));
    }
    // What is wrong with the message itself is told on the stream.
    assert_eq!(site.send(&good().body("{")).await.status, 202);
    let answer = next(&mut stream).await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null));
    // A body across lines is one message.
    let across = good().body("{\"jsonrpc\":\"2.0\",\n\"id\":5,\r\n\"method\":\"ping\"}\n");
    assert_eq!(site.send(&across).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 5);
}

/// Until they are answered, whoever else asks.
#[tokio::test]
async fn requests_in_work_are_capped() {
    let (stage, site) = site_with(HttpOptions::default().legacy_sse(true).max_in_flight(2)).await;
    let (mut stream, path) = session(&site, "2024-11-05").await;
    for id in 1..=2 {
        assert_eq!(site.send(&call(id, "waits").path(&path)).await.status, 202);
    }
    stage.has_begun(2).await;
    for request in [call(3, "quick").path(&path), super::request::call("quick")] {
        let refused = site.send(&request).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    }
    stage.open();
    next(&mut stream).await;
    // One place is free again, though the other call goes on.
    assert_eq!(site.send(&call(3, "quick").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 3);
    // The end of the session frees the other.
    assert_eq!(site.send(&call(4, "waits").path(&path)).await.status, 202);
    stage.has_begun(3).await;
    assert_eq!(site.send(&super::request::call("quick")).await.status, 503);
    drop(stream);
    stage.has_dropped(3).await;
    assert_eq!(site.send(&super::request::call("quick")).await.status, 200);
}

#[tokio::test]
async fn the_end_of_the_stream_ends_the_session() {
    let (stage, site) = legacy().await;
    let (stream, path) = session(&site, "2024-11-05").await;
    assert_eq!(site.send(&call(1, "waits").path(&path)).await.status, 202);
    stage.has_begun(1).await;
    drop(stream);
    stage.has_dropped(1).await;
    assert_eq!(site.send(&call(2, "quick").path(&path)).await.status, 404);
}

/// Its clients cannot come back, whatever version they speak.
#[tokio::test]
async fn the_stream_is_never_let_go() {
    let (stage, site) = legacy().await;
    let (mut stream, path) = session(&site, "2025-11-25").await;
    assert_eq!(site.send(&call(1, "lets_go").path(&path)).await.status, 202);
    stage.open();
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "came back");
}

#[tokio::test]
async fn the_stream_is_kept_alive() {
    let options = HttpOptions::default().legacy_sse(true).keep_alive(Duration::from_millis(5));
    let (_, site) = site_with(options).await;
    let (mut stream, _) = open(&site).await;
    assert!(stream.event().await.unwrap().is_comment);
}

#[tokio::test]
async fn there_are_not_too_many_streams() {
    let (_, site) = site_with(HttpOptions::default().legacy_sse(true).max_sessions(1)).await;
    let (stream, path) = open(&site).await;
    let refused = site.send(&sse()).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop(stream);
    super::client::soon(async { while site.send(&call(1, "quick").path(&path)).await.status != 404 {} }).await;
    open(&site).await;
}

/// No answer is lost while the client reads slowly; whoever does not read at all is not served for ever.
#[tokio::test]
async fn a_stream_that_is_not_read_is_bounded() {
    let (_, site) = legacy().await;
    let (mut stream, path) = session(&site, "2024-11-05").await;
    let long = |id: u64| {
        let params = json!({"name": "long", "arguments": {"length": 100_000}});
        Request::post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).path(&path)
    };
    let mut accepted = 0;
    let refused = loop {
        let answer = site.send(&long(accepted)).await;
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 1000, "nothing is refused");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for id in 0..accepted {
        assert_eq!(next(&mut stream).await["id"], id);
    }
    assert_eq!(site.send(&long(accepted)).await.status, 202);
}
