//! The number of connections, the timeouts of those that send nothing, and bytes that are not HTTP.

use std::time::{Duration, Instant};

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use tokio::io::AsyncWriteExt;

use super::served;
use crate::{
    http::{
        client::soon,
        refusals,
        request::{Request, call, initialize},
        serve, serve_with,
    },
    layers::log::Log,
};

#[tokio::test]
async fn connections_are_limited() {
    let (log, _guard) = Log::listen();
    let (_, endpoint) = serve_with(ListenerOptions::default().max_connections(2)).await;
    let idle = served(&endpoint).await;
    let session = endpoint.session("2025-11-25").await;
    let listening = served(&endpoint).await.open(&session.get()).await;
    assert_eq!(listening.status, 200);
    for request in [call("quick"), Request::new("GET").path("/healthz"), call("quick").path("/nowhere")] {
        let before = refusals("connections");
        let refused = endpoint.send(&request).await;
        assert!(refusals("connections") > before);
        assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
        assert_eq!(refused.header("connection"), Some("close"));
    }
    assert_eq!(log.take("too many connections").len(), 1);
    // Admitted connections stay open.
    let (response, idle) = idle.send(&call("quick")).await;
    assert_eq!(response.text(), "quick");
    drop(idle);
    served(&endpoint).await;
    drop(listening);
}

/// A server with a limit of zero would be useless.
#[tokio::test]
async fn limits_are_at_least_one() {
    let options = HttpOptions::default().max_in_flight(0).max_sessions(0);
    let (_, endpoint) = serve_with((options, ListenerOptions::default().max_connections(0))).await;
    let mut connection = endpoint.connect().await;
    for request in [call("quick"), initialize("2025-11-25"), call("quick")] {
        let (response, kept) = connection.send(&request).await;
        assert_eq!(response.outcome(), (200, 0));
        connection = kept;
    }
}

#[tokio::test]
async fn limits_of_memory_may_be_infinite() {
    let options = HttpOptions::default().max_body_bytes(usize::MAX).max_total_body_bytes(usize::MAX);
    let (_, endpoint) = serve_with(options.max_sessions(usize::MAX).max_unread_response_bytes(usize::MAX)).await;
    for request in [call("quick"), initialize("2025-11-25")] {
        assert_eq!(endpoint.send(&request).await.outcome(), (200, 0));
    }
}

/// The limit is at least 8 KiB.
#[tokio::test]
async fn the_heads_of_requests_are_limited() {
    let (_, endpoint) = serve_with(ListenerOptions::default().max_head_bytes(0)).await;
    for (length, status) in [(7 << 10, 200), (9 << 10, 431)] {
        let request = call("quick").with("x-long", &"x".repeat(length));
        assert_eq!(endpoint.send(&request).await.status, status, "{length}");
    }
}

/// Neither idle nor slow connections keep others out.
#[tokio::test]
async fn slow_and_idle_connections_time_out() {
    let options = ListenerOptions::default().header_timeout(Duration::from_millis(200)).max_connections(3);
    let (gate, endpoint) = serve_with(options).await;
    let began = Instant::now();
    let silent = endpoint.connect().await;
    let idle = endpoint.connect().await.send(&call("quick")).await.1;
    let (reader, mut writer) = endpoint.connect().await.0.into_inner().into_split();
    let trickle = tokio::spawn(async move {
        writer.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
        while writer.write_all(b"x-a: b\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    silent.closed().await;
    idle.closed().await;
    let mut response = Vec::new();
    let _ = soon(tokio::io::AsyncReadExt::read_to_end(&mut { reader }, &mut response)).await;
    assert_eq!(response, b"");
    soon(trickle).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "the connections were closed by the default timeout of hyper, not by the option"
    );
    served(&endpoint).await;

    // A connection that waits for a response is not idle.
    let mut waiting = endpoint.connect().await;
    waiting.write(&call("waits").bytes()).await;
    gate.has_begun(1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    gate.open();
    assert_eq!(waiting.response().await.full().await.0.text(), "waited");
}

/// The server responds with 400, or closes the connection.
#[tokio::test]
async fn malformed_http_is_rejected() {
    let (_, endpoint) = serve().await;
    for garbage in [
        &b"\r\n\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /mcp HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut connection = endpoint.connect().await;
        connection.write(garbage).await;
        connection.0.get_mut().shutdown().await.unwrap();
        let mut response = Vec::new();
        let _ = soon(tokio::io::AsyncReadExt::read_to_end(&mut connection.0, &mut response)).await;
        let response = String::from_utf8_lossy(&response);
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{garbage:?}: {response}");
    }
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
}
