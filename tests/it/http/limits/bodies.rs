//! The sizes and the timeouts of bodies, and bodies that are malformed.

use std::time::Duration;

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::MEGABYTE;
use crate::http::{
    client::{Connection, Endpoint, soon},
    refusals,
    request::{Request, call, initialize, stateless},
    serve, serve_with,
};

/// Sends a head, then bytes as long as the server accepts them.
async fn flood(endpoint: &Endpoint, request: &Request, piece: &[u8], pieces: usize) -> (u16, i64) {
    let (reader, mut writer) = endpoint.connect().await.0.into_inner().into_split();
    // A writer does not notice that the peer has stopped reading.
    let head = request.head();
    let piece = piece.to_vec();
    let writing = tokio::spawn(async move {
        writer.write_all(head.as_bytes()).await?;
        for _ in 0..pieces {
            writer.write_all(&piece).await?;
        }
        std::future::pending::<std::io::Result<()>>().await
    });
    let mut buffer = vec![0; 4096];
    let mut length = 0;
    soon(async {
        while !buffer[..length].ends_with(b"}}") {
            reader.readable().await.unwrap();
            match reader.try_read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // The server has responded, and has not read the rest.
                Err(_) => break,
            }
        }
    })
    .await;
    writing.abort();
    let response = String::from_utf8(buffer[..length].to_vec()).unwrap();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = response.split("\r\n\r\n").nth(1).unwrap_or_default();
    let code = serde_json::from_str::<Value>(body).unwrap_or_default()["error"]["code"].as_i64();
    (status, code.unwrap_or_default())
}

#[tokio::test]
async fn the_size_of_a_body_is_limited() {
    let (_, endpoint) = serve().await;
    let padded = |size: usize| {
        let mut body = stateless("tools/call", &serde_json::json!({"name": "quick"}));
        let padding = "x".repeat(size);
        body = body.change(|message| message["params"]["_meta"]["padding"] = Value::from(padding));
        body
    };
    assert_eq!(endpoint.send(&padded(3 * MEGABYTE)).await.text(), "quick");
    assert_eq!(endpoint.send(&padded(5 * MEGABYTE)).await.outcome(), (413, -32600));
    // Rejected before the body arrives.
    let huge = call("quick").with("content-length", &(100 * MEGABYTE).to_string());
    let refused = endpoint.open(&huge.clone().body("").with("content-length", &(100 * MEGABYTE).to_string())).await;
    assert_eq!((refused.status, refused.header("connection")), (413, Some("close")));
    assert_eq!(flood(&endpoint, &huge, &vec![b' '; MEGABYTE], 100).await, (413, -32600));
    // The size of a chunked body is not known in advance.
    let chunked = call("quick").without("content-length").with("transfer-encoding", "chunked");
    let piece = [b"100000\r\n", vec![b' '; MEGABYTE].as_slice(), b"\r\n"].concat();
    assert_eq!(flood(&endpoint, &chunked, &piece, 100).await, (413, -32600));
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");

    let (_, endpoint) = serve_with(HttpOptions::default().max_body_bytes(100)).await;
    assert_eq!(endpoint.send(&call("quick")).await.outcome(), (413, -32600));
}

/// Sends 100 MB that the server rejects, and returns how much of it the server and the system have accepted.
async fn accepted_of(endpoint: &Endpoint, request: &Request, piece: &[u8]) -> usize {
    let mut connection = endpoint.connect().await;
    connection.write(request.head().as_bytes()).await;
    let mut accepted = 0;
    let writing = async {
        while accepted < 100 * MEGABYTE && connection.0.get_mut().write_all(piece).await.is_ok() {
            accepted += piece.len();
        }
    };
    soon(writing).await;
    accepted
}

/// The server reads a part of a rejected body, but not all of it, however much the client sends.
#[tokio::test]
async fn a_rejected_body_is_read_for_a_while() {
    let (_, endpoint) = serve_with(HttpOptions::default().max_body_bytes(MEGABYTE)).await;
    let length = (100 * MEGABYTE).to_string();
    let bytes = vec![b' '; MEGABYTE];
    let chunk = [b"100000\r\n", bytes.as_slice(), b"\r\n"].concat();
    let chunked = || call("quick").without("content-length").with("transfer-encoding", "chunked");
    for (request, piece) in [
        (call("quick").with("content-length", &length), &bytes),
        (call("quick").with("content-length", &length).with("mcp-session-id", "unknown"), &bytes),
        (chunked(), &chunk),
    ] {
        let accepted = accepted_of(&endpoint, &request, piece).await;
        assert!(accepted < 40 * MEGABYTE, "{accepted}");
    }
}

/// Most clients read nothing before they have written everything.
#[tokio::test]
async fn the_reason_of_a_rejection_reaches_clients_that_write_everything_first() {
    // The share of a client in the memory of all bodies is little more than a megabyte.
    let options = HttpOptions::default().max_body_bytes(32 * MEGABYTE).max_total_body_bytes(0).max_peer_share(0.01);
    let (_, endpoint) = serve_with((options, ListenerOptions::default().legacy_sse(true))).await;
    // More than the buffers of both sockets hold.
    let long = || initialize("2025-11-25").body(vec![b' '; 16 * MEGABYTE]);
    for (row, (request, outcome)) in [
        (long().with("mcp-session-id", "unknown"), (404, -32600)),
        (long().with("accept", "text/html"), (406, -32600)),
        (long().with("content-type", "text/plain"), (415, -32600)),
        (long().path("/message?sessionId=unknown"), (404, -32600)),
        (long(), (503, -32603)),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(endpoint.send(&request).await.outcome(), outcome, "row {row}");
    }
}

#[tokio::test]
async fn an_incomplete_body_is_rejected() {
    let (_, endpoint) = serve().await;
    let whole = call("quick");
    let chunked = whole.clone().body("").without("content-length").with("transfer-encoding", "chunked");
    for bytes in [
        whole.bytes()[..whole.bytes().len() - 5].to_vec(),
        [chunked.head().as_bytes(), b"5\r\n{\"js"].concat(),
        [chunked.head().as_bytes(), b"5\r\n{\"jso\r\n"].concat(),
        [chunked.head().as_bytes(), b"zz\r\n{\"jso\r\n"].concat(),
    ] {
        let mut connection = endpoint.connect().await;
        connection.write(&bytes).await;
        connection.0.get_mut().shutdown().await.unwrap();
        let response = connection.response().await.full().await.0;
        assert_eq!(response.outcome(), (400, -32700), "{:?}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(endpoint.send(&whole).await.text(), "quick");
}

#[tokio::test]
async fn a_chunked_body_is_read() {
    let (_, endpoint) = serve().await;
    let whole = call("quick");
    let body = whole.bytes()[whole.head().len()..].to_vec();
    let head = whole.clone().without("content-length").with("transfer-encoding", "chunked").head();
    let chunks: Vec<u8> =
        body.chunks(7).flat_map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat()).collect();
    let mut connection = endpoint.connect().await;
    connection.write(&[head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()).await;
    assert_eq!(connection.response().await.full().await.0.text(), "quick");
}

#[tokio::test]
async fn a_slow_body_times_out() {
    let (_, endpoint) = serve_with(HttpOptions::default().body_timeout(Duration::from_millis(100))).await;
    let chunked = call("quick").without("content-length").with("transfer-encoding", "chunked");
    for (head, piece) in [(chunked.head(), &b"1\r\n \r\n"[..]), (call("quick").head(), b" ")] {
        let (reader, mut writer) = endpoint.connect().await.0.into_inner().into_split();
        let trickle = tokio::spawn(async move {
            writer.write_all(head.as_bytes()).await.unwrap();
            while writer.write_all(piece).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let mut response = vec![0; 17];
        soon(tokio::io::AsyncReadExt::read_exact(&mut { reader }, &mut response)).await.unwrap();
        assert_eq!(response, b"HTTP/1.1 408 Requ");
        soon(trickle).await.unwrap();
    }
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
}

/// Sends part of a body.
async fn stalled(endpoint: &Endpoint, bytes: usize) -> Connection {
    let mut client = endpoint.connect().await;
    let head = call("quick").with("content-length", &(bytes + 1).to_string()).head();
    client.write(&[head.as_bytes(), &vec![b' '; bytes]].concat()).await;
    client
}

/// Received bytes count, not announced ones.
#[tokio::test]
async fn the_total_size_of_bodies_is_limited() {
    let options = HttpOptions::default().max_body_bytes(MEGABYTE).max_total_body_bytes(0);
    let (_, endpoint) = serve_with(options).await;
    let padding = "x".repeat(MEGABYTE - 1000);
    let long = call("quick").change(|message| message["params"]["_meta"]["padding"] = padding.into());
    let mut announced = Vec::new();
    for _ in 0..20 {
        let mut client = endpoint.connect().await;
        client.write(call("quick").with("content-length", &MEGABYTE.to_string()).head().as_bytes()).await;
        announced.push(client);
    }
    assert_eq!(endpoint.send(&long).await.text(), "quick");
    let mut held = Vec::new();
    let before = refusals("memory");
    let refused = loop {
        let response = endpoint.send(&long).await;
        if response.status != 200 {
            break response;
        }
        assert!(held.len() < 100, "no request is rejected");
        held.push(stalled(&endpoint, MEGABYTE - 10).await);
    };
    assert!(refusals("memory") > before);
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.header("connection"), Some("close"));
    // Short bodies are still accepted, and a finished request frees its memory.
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
    drop(held);
    soon(async { while endpoint.send(&long).await.status != 200 {} }).await;
}
