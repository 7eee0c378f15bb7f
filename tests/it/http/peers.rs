//! One peer can use only its share of each limit, so that others are served.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use http_body_util::BodyExt;
use mcp_runtime::{
    HttpOptions, Server,
    backend::MemoryBackend,
    http::ListenerOptions,
    http::{HttpBody, HttpService},
    tool,
};
use serde_json::{Value, json};

use super::{
    client::soon,
    principals::{get, in_session, open, post, send_as, service},
    request::{Request, call, initialize, stateless},
    server,
};

/// A peer that attacks, and one that must be served nevertheless.
const EVE: Option<&str> = Some("eve");
const ADA: Option<&str> = Some("ada");

/// Returns the text that `quick` returns, or the status of the rejection.
async fn quick(service: &HttpService, id: &str) -> Result<String, u16> {
    let response = send_as(service, ADA, post(id, "tools/call", json!({"name": "quick"}))).await;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(status);
    }
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    Ok(message["result"]["content"][0]["text"].as_str().unwrap().to_owned())
}

/// Over all replicas.
#[tokio::test]
async fn shared_sessions_of_one_peer_leave_room_for_others() {
    let backend = Arc::new(MemoryBackend::default());
    let options = || HttpOptions::default().max_sessions(4).max_peer_share(0.5);
    let replicas = [(); 2].map(|()| service(server().1.backend(Arc::clone(&backend)), options()));
    for (principal, replica, status) in [(EVE, 0, 200), (EVE, 1, 200), (EVE, 0, 503), (ADA, 1, 200), (ADA, 0, 200)] {
        let opened = send_as(&replicas[replica], principal, initialize("2025-11-25")).await;
        assert_eq!(opened.status(), status, "{principal:?} at {replica}");
    }
}

/// Returns the median duration of a call.
async fn median_time(service: &HttpService, id: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        assert_eq!(quick(service, id).await.as_deref(), Ok("quick"));
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

fn waits(id: &str, number: usize) -> Request {
    in_session(
        id,
        Request::post(&json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "waits"}})),
    )
}

/// Keeps the calls of `blocks` blocked until it is open.
#[derive(Debug, Default)]
struct Latch {
    is_open: Mutex<bool>,
    changed: Condvar,
}

/// Opens a latch when dropped, so that the threads end even if the test fails.
struct OpenOnDrop(Arc<Latch>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        *self.0.is_open.lock().unwrap() = true;
        self.0.changed.notify_all();
    }
}

/// Block the thread until the test ends.
#[tool(blocking)]
fn blocks(latch: &Latch) {
    let is_open = latch.is_open.lock().unwrap();
    drop(latch.changed.wait_while(is_open, |is_open| !*is_open).unwrap());
}

/// Run on a thread for blocking functions.
#[tool(blocking)]
fn needs_thread() -> &'static str {
    "done"
}

/// The process has 256 threads for blocking functions.
#[tokio::test]
async fn blocking_calls_of_one_peer_leave_threads_for_others() {
    let latch = Arc::new(Latch::default());
    let opening = OpenOnDrop(Arc::clone(&latch));
    let server = Server::empty("busy", "1.0.0").with::<blocks>().with::<needs_thread>().with_shared(latch);
    let service = service(server, HttpOptions::default().stream_after(Duration::ZERO));
    let session = open(&service, EVE).await;
    for number in 0..300 {
        let params = json!({"name": "blocks"});
        let call = post(&session, "tools/call", params).change(|message| message["id"] = json!(number));
        assert_eq!(send_as(&service, EVE, call).await.status(), 200);
    }
    let response = send_as(&service, ADA, call("needs_thread")).await;
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("done"), "{body:?}");
    drop(opening);
}

/// The abandoned calls of four sessions, 1,024 each, exceed the default limit of 4,096 calls together with any other.
#[tokio::test]
async fn abandoned_calls_and_sessions_of_one_peer_leave_room_for_others() {
    let service = service(server().1, HttpOptions::default().stream_after(Duration::ZERO).max_sessions(2_000));
    let id = open(&service, ADA).await;
    let alone = median_time(&service, &id).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let session = open(&service, EVE).await;
        for number in 0..1024 {
            // The response is dropped, but a call in a session continues.
            statuses.push(send_as(&service, EVE, waits(&session, number)).await.status().as_u16());
        }
    }
    let accepted = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((accepted, statuses.len()), (4096 * 3 / 4, 4096));
    assert!(statuses[accepted..].iter().all(|status| *status == 503));
    assert_eq!(quick(&service, &id).await.as_deref(), Ok("quick"));

    // More than the limit of sessions.
    for _ in 0..2_050 {
        assert_eq!(send_as(&service, EVE, initialize("2025-11-25")).await.status(), 200);
    }
    // A call whose duration grew with the number of calls and sessions would take thousands of times longer.
    let beside_others = median_time(&service, &id).await;
    assert!(beside_others < alone * 100, "{beside_others:?} beside the calls and sessions of another, {alone:?} alone");
    assert_eq!(send_as(&service, EVE, call("waits")).await.status(), 503);
}

#[tokio::test]
async fn listeners_of_one_peer_leave_room_for_others() {
    let built = server().1.build().unwrap();
    // The lists may change, so clients can subscribe to them.
    let _handle = built.handle();
    let service = built.into_http_service(HttpOptions::default()).unwrap();
    let listen = || stateless("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
    let mut streams: Vec<HttpBody> = Vec::new();
    let refused = loop {
        let response = send_as(&service, EVE, listen()).await;
        if response.status() != 200 {
            break response.status();
        }
        streams.push(response.into_body());
        assert!(streams.len() < 10_000, "no listener is refused");
    };
    assert_eq!((refused.as_u16(), streams.len()), (503, 7500));
    assert_eq!(send_as(&service, ADA, listen()).await.status(), 200);
    streams.pop();
    assert_eq!(send_as(&service, EVE, listen()).await.status(), 200);
}

/// Sessions whose streams are open are not idle, so a peer that holds its share of them opens no more.
#[tokio::test]
async fn active_sessions_of_one_peer_leave_room_for_others() {
    let service = service(server().1, HttpOptions::default().max_sessions(8));
    let mut streams = Vec::new();
    for _ in 0..6 {
        let id = open(&service, EVE).await;
        streams.push(send_as(&service, EVE, get(&id)).await);
    }
    for (peer, status) in [(EVE, 503), (ADA, 200), (ADA, 200), (EVE, 503)] {
        assert_eq!(send_as(&service, peer, initialize("2025-11-25")).await.status(), status, "{peer:?}");
    }
}

/// Without principals, peers are told apart by their addresses. Every address of 127.0.0.0/8 is local.
#[cfg(target_os = "linux")]
mod addresses {
    use tokio::net::TcpSocket;

    use super::*;
    use crate::http::{
        client::{Connection, Endpoint},
        limits::UNREAD,
        serve_with,
    };

    async fn connect(endpoint: &Endpoint, from: &str) -> Connection {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        Connection::through(socket, endpoint.address).await
    }

    #[tokio::test]
    async fn connections_of_one_address_leave_room_for_others() {
        let (_, endpoint) = serve_with(ListenerOptions::default().max_connections(4)).await;
        let mut connections = Vec::new();
        for (from, status) in
            [("127.0.0.1", 200), ("127.0.0.1", 200), ("127.0.0.1", 200), ("127.0.0.1", 503), ("127.0.0.2", 200)]
        {
            let (response, connection) = connect(&endpoint, from).await.send(&call("quick")).await;
            assert_eq!(response.status, status, "{from}");
            connections.push(connection);
        }
    }

    #[tokio::test]
    async fn unread_responses_of_one_address_leave_room_for_others() {
        let (_, endpoint) = serve_with(HttpOptions::default().max_unread_response_bytes(4 * UNREAD)).await;
        let long = stateless("tools/call", &json!({"name": "long", "arguments": {"length": UNREAD - 1024}}));
        let mut unread = Vec::new();
        for (from, request, status) in [
            ("127.0.0.1", &long, 200),
            ("127.0.0.1", &long, 200),
            ("127.0.0.1", &long, 200),
            ("127.0.0.1", &call("quick"), 503),
            ("127.0.0.2", &call("quick"), 200),
        ] {
            let response = connect(&endpoint, from).await.open(request).await;
            assert_eq!(response.status, status, "{from}");
            unread.push(response);
        }
    }

    #[tokio::test]
    async fn bodies_of_one_address_leave_room_for_others() {
        let options = HttpOptions::default().max_body_bytes(1 << 20).max_total_body_bytes(4 << 20).max_peer_share(0.5);
        let (_, endpoint) = serve_with(options).await;
        let long = call("quick").body(vec![b' '; 1 << 20]).with("content-length", &(1 << 20).to_string());
        let bytes = long.bytes();
        let mut stalled = Vec::new();
        // Each stalled body is received concurrently, so the number that exhausts the share varies.
        while connect(&endpoint, "127.0.0.1").await.send(&long).await.0.status != 503 {
            assert!(stalled.len() < 100, "no body is refused");
            let mut connection = connect(&endpoint, "127.0.0.1").await;
            connection.write(&bytes[..bytes.len() - 1]).await;
            stalled.push(connection);
        }
        // Spaces are not a message, so the complete body is rejected.
        assert_eq!(connect(&endpoint, "127.0.0.2").await.send(&long).await.0.status, 400);
    }
}
