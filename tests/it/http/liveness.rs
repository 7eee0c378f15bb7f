//! Pings of the server over HTTP.

use std::time::{Duration, Instant};

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::{
    client::{Endpoint, soon, until},
    long,
    request::{Request, initialize},
    server,
};
use crate::sessions::pinging_server;

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_session_whose_client_does_not_answer_ends() {
    let (server, calls) = pinging_server(SHORT, SHORT);
    let before = calls.strong_count();
    let endpoint = Endpoint::start(server, HttpOptions::default().stream_after(SHORT)).await;
    for version in VERSIONS {
        // Clients without a stream cannot be pinged, and their sessions do not end.
        let unreachable = endpoint.session(version).await;
        let session = endpoint.session(version).await;
        let mut call = endpoint.open(&session.call(1, "hangs")).await;
        until(|| calls.strong_count() == before + 1).await;
        let mut stream = endpoint.open(&session.get()).await;
        assert_eq!(stream.message().await.unwrap()["method"], "ping", "{version}");
        while let Some(message) = stream.message().await {
            assert_ne!(message["method"], "ping", "{version}");
        }
        let failed = call.messages().await;
        assert_eq!((failed.len(), &failed[0]["id"], &failed[0]["error"]["code"]), (1, &json!(1), &json!(-32603)));
        until(|| calls.strong_count() == before).await;
        for request in [session.ping(), session.get(), session.delete(), session.call(2, "hangs")] {
            assert_eq!(endpoint.send(&request).await.outcome(), (404, -32600), "{version} {request:?}");
        }
        assert!(unreachable.is_alive().await, "{version}");
        // The first request to the client is the first ping.
        let ping = endpoint.open(&unreachable.get()).await.message().await.unwrap();
        assert_eq!((&ping["method"], &ping["id"]), (&json!("ping"), &json!(1)), "{version}");
    }
}

/// The client reads a long response, and leaves the pings on its other stream unanswered.
#[tokio::test]
async fn a_session_whose_client_only_reads_lives_while_it_reads() {
    let limit = Duration::from_millis(500);
    let (server, _) = pinging_server(SHORT, limit);
    let server = server.with::<long>();
    let handle = server.handle();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let stream = endpoint.open(&session.get()).await;
    let params = json!({"name": "long", "arguments": {"length": 1 << 25}});
    let call = session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let mut connection = endpoint.connect().await;
    connection.write(&call.bytes()).await;
    let start = Instant::now();
    while start.elapsed() < 4 * limit {
        soon(connection.0.read_exact(&mut vec![0; 1 << 16])).await.unwrap();
        assert_eq!(handle.sessions().len(), 1, "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Once it no longer reads, the session ends.
    until(|| handle.sessions().is_empty()).await;
    drop(stream);
}

/// Its client may open another stream.
#[tokio::test]
async fn a_session_whose_stream_breaks_after_a_ping_lives() {
    let limit = Duration::from_secs(1);
    let (server, _) = pinging_server(SHORT, limit);
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let mut stream = endpoint.open(&session.get()).await;
    assert_eq!(stream.message().await.unwrap()["method"], "ping");
    drop(stream);
    tokio::time::sleep(limit * 3 / 2).await;
    assert!(session.is_alive().await);
}

#[tokio::test]
async fn a_session_whose_client_answers_lives() {
    let (server, _) = pinging_server(SHORT, LONG);
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for version in VERSIONS {
        let session = endpoint.session(version).await;
        let mut stream = endpoint.open(&session.get()).await;
        for id in 1..=5 {
            let ping = stream.message().await.unwrap();
            assert_eq!((&ping["method"], &ping["id"]), (&json!("ping"), &json!(id)), "{version}");
            let response = json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}});
            assert_eq!(endpoint.send(&session.post(&response)).await.status, 202, "{version}");
        }
        assert!(session.is_alive().await, "{version}");
    }
}

#[tokio::test]
async fn a_legacy_stream_closes_if_its_client_does_not_answer() {
    let (server, _) = pinging_server(Duration::from_millis(200), SHORT);
    let endpoint = Endpoint::start(server, ListenerOptions::default().legacy_sse(true)).await;
    let mut stream = endpoint.open(&Request::new("GET").path("/sse").with("accept", "text/event-stream")).await;
    let path = stream.event().await.unwrap().data;
    let initialize = initialize("2024-11-05").path(&path);
    assert_eq!(endpoint.send(&initialize).await.status, 202);
    assert!(stream.message().await.unwrap()["result"].is_object());
    assert_eq!(stream.message().await.unwrap()["method"], "ping");
    while stream.message().await.is_some() {}
    assert_eq!(endpoint.send(&initialize).await.status, 404);
}

/// The same on a stream that the client has resumed.
#[tokio::test]
async fn a_session_whose_client_only_reads_a_resumed_stream_lives_while_it_reads() {
    let limit = Duration::from_millis(500);
    let (gate, server) = server();
    let server = server.ping_interval(SHORT).ping_timeout(limit);
    let handle = server.handle();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let params = json!({"name": "reports_long", "arguments": {"length": 1 << 25}, "_meta": {"progressToken": 1}});
    let call = session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let mut begun = endpoint.open(&call).await;
    let event = begun.event().await.unwrap().id.unwrap();
    drop(begun);
    let mut connection = endpoint.connect().await;
    connection.write(&session.resume(&event).bytes()).await;
    gate.open();
    let stream = endpoint.open(&session.get()).await;
    let start = Instant::now();
    while start.elapsed() < 4 * limit {
        soon(connection.0.read_exact(&mut vec![0; 1 << 16])).await.unwrap();
        assert_eq!(handle.sessions().len(), 1, "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until(|| handle.sessions().is_empty()).await;
    drop(stream);
}
