//! The shutdown of a server: what it waits for, and for how long.

use std::time::Duration;

use mcp_runtime::{HttpOptions, backend::MemoryBackend, http::ListenerOptions};
use serde_json::Value;

use super::{
    client::Endpoint,
    request::{Request, call},
    serve, serve_with, server,
};

#[tokio::test]
async fn shutdown_waits_for_calls_and_streams() {
    let (gate, mut endpoint) = serve_with(ListenerOptions::default().legacy_sse(true)).await;
    let session = endpoint.session("2025-11-25").await;
    let (get, reports) = (session.get(), session.call(1, "reports"));
    let idle = endpoint.connect().await.send(&call("quick")).await.1;
    let mut listening = endpoint.open(&get).await;
    let mut legacy = endpoint.open(&Request::new("GET").path("/sse")).await;
    assert!(legacy.event().await.is_some());
    let mut streamed = endpoint.open(&reports).await;
    assert!(streamed.message().await.is_some());
    let mut waiting = endpoint.connect().await;
    waiting.write(&call("waits").bytes()).await;
    gate.has_begun(2).await;

    endpoint.stop();
    // Idle connections are closed at once.
    idle.closed().await;
    gate.open();
    gate.open();
    assert_eq!(waiting.response().await.full().await.0.text(), "waited");
    assert_eq!(streamed.messages().await.len(), 2);
    // The chunked body ends properly.
    assert_eq!(listening.messages().await, Vec::<Value>::new());
    assert_eq!(legacy.messages().await, Vec::<Value>::new());
    endpoint.stopped().await;
}

/// Shutdown waits for the rest of a partly received message, and for its call.
#[tokio::test]
async fn shutdown_waits_for_messages_being_received() {
    let (gate, mut endpoint) = serve().await;
    let (request, mut late) = (call("reports"), endpoint.connect().await);
    let bytes = request.bytes();
    let (begun, rest) = bytes.split_at(bytes.len() - 10);
    late.write(begun).await;
    // Until the head has arrived, shutdown does not wait for the request.
    tokio::time::sleep(Duration::from_millis(100)).await;
    endpoint.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    late.write(rest).await;
    let mut response = late.response().await;
    assert!(response.message().await.is_some());
    gate.open();
    assert_eq!(response.messages().await.len(), 2);
    endpoint.stopped().await;
}

#[tokio::test]
async fn shutdown_ends_after_the_grace_period() {
    let (gate, server) = server();
    let endpoint = Endpoint::start(server.shutdown_grace(Duration::from_millis(50)), HttpOptions::default()).await;
    let address = endpoint.address;
    let mut streamed = endpoint.open(&call("reports")).await;
    assert!(streamed.message().await.is_some());
    let session = endpoint.session("2025-11-25").await.call(1, "waits");
    let mut waiting = endpoint.connect().await;
    waiting.write(&session.bytes()).await;
    gate.has_begun(2).await;
    // The head of this request never arrives.
    let mut slow = endpoint.connect().await;
    slow.write(b"POST /mcp HTTP/1.1\r\n").await;
    endpoint.stopped().await;
    assert_eq!(streamed.messages().await[0]["error"]["message"], "the server is shutting down");
    gate.has_dropped(2).await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// Without a shared backend, no client could read their responses any more.
#[tokio::test]
async fn shutdown_does_not_wait_for_calls_after_the_last_connection() {
    let (gate, server) = server();
    let endpoint = Endpoint::start(server.shutdown_grace(Duration::from_secs(3600)), HttpOptions::default()).await;
    let reports = endpoint.session("2025-11-25").await.call(1, "reports");
    let mut lost = endpoint.open(&reports).await;
    assert!(lost.message().await.is_some());
    drop(lost);
    endpoint.stopped().await;
    gate.has_dropped(1).await;
}

/// The responses exist only once the calls are cancelled, and the streams must not end before they are sent.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_a_shutdown_cancels_are_answered() {
    for (shared, version) in [(false, "2025-06-18"), (true, "2025-06-18"), (true, "2025-11-25")] {
        let (gate, server) = server();
        let server = if shared { server.backend(MemoryBackend::default()) } else { server };
        let server = server.shutdown_grace(Duration::from_millis(200));
        let endpoint = Endpoint::start(server, HttpOptions::default()).await;
        let session = endpoint.session(version).await;
        let mut streams = Vec::new();
        for id in 0..24 {
            let mut stream = endpoint.open(&session.call(id, "reports")).await;
            assert!(stream.message().await.is_some());
            streams.push(stream);
        }
        gate.has_begun(24).await;
        drop(session);
        endpoint.stopped().await;
        for mut stream in streams {
            let messages = stream.messages().await;
            let message = messages.last().map(|message| &message["error"]["message"]);
            assert_eq!(message, Some(&"the server is shutting down".into()), "{shared} {version} {messages:?}");
        }
    }
}
