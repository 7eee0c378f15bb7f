//! Limits, timeouts, malformed requests, and shutdown.

use std::time::{Duration, Instant};

use mcp_runtime::HttpOptions;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{
    client::{Connection, Endpoint, Session, soon},
    request::{Request, call, initialize, stateless},
    serve, serve_with, server,
};

const MEGABYTE: usize = 1 << 20;

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

#[tokio::test]
async fn calls_in_flight_are_limited() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_in_flight(2)).await;
    let session = endpoint.session("2025-11-25").await;
    let mut streamed = endpoint.open(&session.call(1, "reports")).await;
    assert!(streamed.message().await.is_some());
    let waiting = call("waits");
    let others = async {
        gate.has_begun(2).await;
        for request in [call("quick"), session.call(2, "quick")] {
            let refused = endpoint.send(&request).await;
            assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
        }
        // Other requests do not count as calls.
        for request in [stateless("tools/list", &json!({})), session.ping(), initialize("2025-11-25")] {
            assert_eq!(endpoint.send(&request).await.outcome(), (200, 0));
        }
        let listening = endpoint.open(&session.get()).await;
        assert_eq!(listening.status, 200);
        gate.open();
        gate.open();
    };
    let (response, ()) = tokio::join!(endpoint.send(&waiting), others);
    assert_eq!(response.text(), "waited");
    assert_eq!(streamed.messages().await.len(), 2);
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
}

/// Otherwise calls that wait for their clients would never end.
#[tokio::test]
async fn responses_and_cancellations_are_accepted_at_the_limit_of_calls() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_in_flight(1)).await;
    let opening =
        initialize("2025-11-25").change(|message| message["params"]["capabilities"] = json!({"elicitation": {}}));
    let opened = endpoint.send(&opening).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let session = Session { endpoint: &endpoint, version: "2025-11-25", id };
    session.initialized().await;

    let mut asking = endpoint.open(&session.call(1, "asks")).await;
    let question = asking.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    for request in [session.call(2, "quick"), call("quick")] {
        assert_eq!(endpoint.send(&request).await.outcome(), (503, -32603));
    }
    let result = json!({"action": "accept", "content": {"sure": true}});
    let response = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    assert_eq!(endpoint.send(&response).await.status, 202);
    assert_eq!(asking.messages().await[0]["result"]["content"][0]["text"], "sure");

    let mut asking = endpoint.open(&session.call(1, "asks")).await;
    let question = asking.message().await.unwrap();
    assert_eq!(endpoint.send(&call("quick")).await.outcome(), (503, -32603));
    assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    gate.has_dropped(2).await;
    // The call has no response, and its client request is cancelled.
    let rest = asking.messages().await;
    let cancelled: Vec<_> = rest.iter().map(|message| (&message["method"], &message["params"]["requestId"])).collect();
    assert_eq!(cancelled, [(&json!("notifications/cancelled"), &question["id"])]);
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
    let refused = loop {
        let response = endpoint.send(&long).await;
        if response.status != 200 {
            break response;
        }
        assert!(held.len() < 100, "no request is rejected");
        held.push(stalled(&endpoint, MEGABYTE - 10).await);
    };
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.header("connection"), Some("close"));
    // Short bodies are still accepted, and a finished request frees its memory.
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
    drop(held);
    soon(async { while endpoint.send(&long).await.status != 200 {} }).await;
}

/// The oldest unfetched responses are evicted, across all sessions.
#[tokio::test]
async fn unfetched_responses_are_limited() {
    const LENGTH: usize = 8 * MEGABYTE;
    const KEPT: usize = 64 * MEGABYTE;
    let (gate, endpoint) = serve().await;
    let sessions = [endpoint.session("2025-11-25").await, endpoint.session("2025-06-18").await];
    let mut lost = Vec::new();
    for id in 0..12 {
        let session = &sessions[id % 2];
        let params = json!({"name": "reports_long", "arguments": {"length": LENGTH}, "_meta": {"progressToken": id}});
        let request = session.post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let mut response = endpoint.open(&request).await;
        let event = loop {
            let event = response.event().await.unwrap();
            if !event.data.is_empty() {
                break event.id.unwrap();
            }
        };
        lost.push((session, event));
    }
    for ended in 1..=lost.len() {
        gate.open();
        gate.has_dropped(ended).await;
    }
    let mut fetched = Vec::new();
    for (session, event) in &lost {
        let mut response = endpoint.open(&session.resume(event)).await;
        fetched.push(match response.status {
            200 => response.messages().await[0].to_string().len() > LENGTH,
            status => {
                assert_eq!(status, 400);
                false
            }
        });
    }
    let kept = fetched.iter().filter(|is_kept| **is_kept).count();
    assert!(kept * LENGTH <= KEPT && kept * LENGTH >= KEPT / 2, "{fetched:?}");
    assert!(fetched.is_sorted(), "the oldest should be evicted first: {fetched:?}");
}

/// Retries until a request is accepted, and returns its connection.
async fn served(endpoint: &Endpoint) -> Connection {
    soon(async {
        loop {
            let (response, connection) = endpoint.connect().await.send(&call("quick")).await;
            match response.status {
                200 => break connection,
                503 => tokio::time::sleep(Duration::from_millis(2)).await,
                other => panic!("{other}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn connections_are_limited() {
    let (_, endpoint) = serve_with(HttpOptions::default().max_connections(2)).await;
    let idle = served(&endpoint).await;
    let session = endpoint.session("2025-11-25").await;
    let listening = served(&endpoint).await.open(&session.get()).await;
    assert_eq!(listening.status, 200);
    for request in [call("quick"), Request::new("GET").path("/healthz"), call("quick").path("/nowhere")] {
        let refused = endpoint.send(&request).await;
        assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
        assert_eq!(refused.header("connection"), Some("close"));
    }
    // Admitted connections stay open.
    let (response, idle) = idle.send(&call("quick")).await;
    assert_eq!(response.text(), "quick");
    drop(idle);
    served(&endpoint).await;
    drop(listening);
}

/// Neither idle nor slow connections keep others out.
#[tokio::test]
async fn slow_and_idle_connections_time_out() {
    let options = HttpOptions::default().header_timeout(Duration::from_millis(200)).max_connections(3);
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

/// More than the socket buffers between server and client hold: the client's is small, and the server's has at most 4 MiB.
pub(super) const UNREAD: usize = 8 * MEGABYTE;

/// A call is in flight until its response is ready, not until the response is read.
#[tokio::test]
async fn unread_streams_do_not_count_as_calls() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_in_flight(1)).await;
    let session = endpoint.session("2025-11-25").await;
    let long = json!({"name": "reports_long", "arguments": {"length": UNREAD}, "_meta": {"progressToken": 1}});
    let of_session = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": long});
    for request in [stateless("tools/call", &long), session.post(&of_session)] {
        let mut unread = endpoint.open(&request).await;
        assert!(unread.message().await.is_some());
        assert_eq!(endpoint.send(&call("quick")).await.status, 503);
        gate.open();
        served(&endpoint).await;
        // No event is lost.
        assert!(unread.message().await.unwrap().to_string().len() > UNREAD);
    }
    // A call that continues without its client is still in flight.
    let mut lost = endpoint.connect().await;
    lost.write(&session.call(1, "waits").bytes()).await;
    gate.has_begun(3).await;
    drop(lost);
    assert_eq!(endpoint.send(&call("quick")).await.status, 503);
    gate.open();
    served(&endpoint).await;
}

/// A response that does not fit is replaced by an error with its id, and further calls are rejected.
#[tokio::test]
async fn unread_complete_responses_are_limited() {
    let options = HttpOptions::default().max_unread_response_bytes(2 * UNREAD + MEGABYTE).max_peer_share(1.0);
    let (_, endpoint) = serve_with(options).await;
    let long = |length: usize| stateless("tools/call", &json!({"name": "long", "arguments": {"length": length}}));
    let mut unread = Vec::new();
    for _ in 0..2 {
        let response = endpoint.open(&long(UNREAD)).await;
        assert_eq!(response.status, 200);
        unread.push(response);
    }
    for request in [long(UNREAD), long(1), call("quick")] {
        let refused = endpoint.send(&request).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        let error = refused.json();
        assert_eq!(error["error"]["message"], "too much response data is unread");
        assert!(error["id"].is_number(), "{error}");
    }
    // A closed connection frees its memory, and so does one that reads.
    drop(unread.pop());
    served(&endpoint).await;
    assert_eq!(endpoint.open(&long(UNREAD + 2 * MEGABYTE)).await.status, 503);
    let read = unread.remove(0).full().await.0;
    assert_eq!(read.text().len(), UNREAD);
    assert_eq!(endpoint.send(&long(UNREAD + 2 * MEGABYTE)).await.status, 200);
}

/// The connection is closed, but its stream can be resumed.
#[tokio::test]
async fn a_client_that_stops_reading_times_out() {
    let options = HttpOptions::default().write_timeout(Duration::from_millis(200)).max_connections(1);
    let (gate, endpoint) = serve_with(options).await;
    let session = endpoint.session("2025-11-25").await;
    let mut whole = served(&endpoint).await;
    let long = json!({"name": "long", "arguments": {"length": UNREAD}});
    whole.write(&stateless("tools/call", &long).bytes()).await;
    let connection = served(&endpoint).await;

    let long = json!({"name": "reports_long", "arguments": {"length": UNREAD}, "_meta": {"progressToken": 1}});
    let request = session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": long}));
    let mut streamed = connection.open(&request).await;
    let id = streamed.event().await.unwrap().id.unwrap();
    gate.open();
    let messages = served(&endpoint).await.open(&session.resume(&id)).await.messages().await;
    assert!(messages.last().unwrap().to_string().len() > UNREAD);
    drop((whole, streamed));
}

/// Calls of disconnected clients count as well.
#[tokio::test]
async fn calls_of_a_session_are_limited() {
    let (gate, server) = server();
    let endpoint = Endpoint::start(server.max_in_flight(1), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let mut connection = endpoint.connect().await;
    connection.write(&session.call(1, "waits").bytes()).await;
    gate.has_begun(1).await;
    drop(connection);
    let refused = endpoint.send(&session.call(2, "quick")).await;
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.json()["id"], 2);
    assert!(session.is_alive().await);
    assert_eq!(endpoint.send(&endpoint.session("2025-11-25").await.call(2, "quick")).await.text(), "quick");
    assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    assert_eq!(endpoint.send(&session.call(2, "quick")).await.text(), "quick");
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

#[tokio::test]
async fn shutdown_waits_for_calls_and_streams() {
    let (gate, mut endpoint) = serve_with(HttpOptions::default().legacy_sse(true)).await;
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

/// Functions hold their arguments for as long as they run.
#[tokio::test]
async fn the_arguments_of_calls_in_flight_are_limited() {
    const LENGTH: usize = 100_000;
    let options =
        HttpOptions::default().max_body_bytes(2 * LENGTH).max_total_body_bytes(10 * LENGTH).max_peer_share(1.0);
    let (gate, endpoint) = serve_with(options.stream_after(Duration::ZERO)).await;
    let padded = |id: u64| {
        let params = json!({"name": "waits", "_meta": {"padding": "x".repeat(LENGTH)}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let session = endpoint.session("2025-11-25").await;
    let mut calls = Vec::new();
    let refused = loop {
        let response = endpoint.open(&session.post(&padded(calls.len() as u64))).await;
        if response.status != 200 {
            break response.status;
        }
        // The function runs even if nobody reads its response.
        calls.push(response);
        assert!(calls.len() < 100, "no call is refused");
    };
    assert_eq!((refused, calls.len()), (503, 10));
    assert_eq!(endpoint.send(&session.call(99, "quick")).await.status, 200);
    for number in 0..calls.len() {
        assert_eq!(endpoint.send(&session.cancel(number as u64)).await.status, 202);
    }
    gate.has_dropped(calls.len()).await;
    assert_eq!(endpoint.open(&session.post(&padded(100))).await.status, 200);
}
