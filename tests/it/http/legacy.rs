//! 2024-11-05: one stream for the server's messages, and one path for the client's.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

use std::{sync::Arc, time::Duration};

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use serde_json::{Value, json};

use super::{
    Gate,
    authorization::Tokens,
    client::{Endpoint, Response, send_body, send_head, soon},
    refusals,
    request::{Request, initialize, stateless},
    serve_with, server,
};

async fn legacy() -> (Arc<Gate>, Endpoint) {
    serve_with(ListenerOptions::default().legacy_sse(true)).await
}

pub(super) fn sse() -> Request {
    Request::new("GET").path("/sse").with("accept", "text/event-stream")
}

pub(super) fn call(id: u64, name: &str) -> Request {
    let params = json!({"name": name, "_meta": {"progressToken": id}});
    Request::post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// Opens a stream, and returns it with the path for messages.
pub(super) async fn open(endpoint: &Endpoint) -> (Response, String) {
    let mut stream = endpoint.open(&sse()).await;
    assert_eq!((stream.status, stream.header("x-accel-buffering")), (200, Some("no")));
    let endpoint = stream.event().await.unwrap();
    assert_eq!((endpoint.name.as_deref(), endpoint.id), (Some("endpoint"), None));
    (stream, endpoint.data)
}

/// The ids of sessions have at least 128 random bits.
#[tokio::test]
async fn ids_cannot_be_guessed() {
    let (_, endpoint) = legacy().await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(open(&endpoint).await.1.rsplit_once('=').unwrap().1.to_owned());
    }
    mcp_tests::assert_unguessable(&ids);
}

/// Opens a session of a protocol version.
pub(super) async fn session(endpoint: &Endpoint, version: &str) -> (Response, String) {
    let (mut stream, path) = open(endpoint).await;
    let accepted = endpoint.send(&initialize(version).path(&path)).await;
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    let response = stream.event().await.unwrap();
    assert_eq!(response.name.as_deref(), Some("message"));
    assert_eq!(response.json()["result"]["protocolVersion"], version);
    (stream, path)
}

pub(super) async fn next(stream: &mut Response) -> Value {
    stream.message().await.unwrap()
}

#[tokio::test]
async fn the_legacy_transport_is_disabled_by_default() {
    let (_, endpoint) = serve_with(HttpOptions::default()).await;
    assert_eq!(endpoint.send(&sse()).await.status, 404);
    assert_eq!(endpoint.send(&call(1, "quick").path("/message?sessionId=x")).await.status, 404);
}

#[tokio::test]
async fn messages_are_answered_on_the_stream() {
    let (gate, endpoint) = legacy().await;
    let (mut stream, path) = session(&endpoint, "2024-11-05").await;
    // A proxy may add parameters.
    let with_more = path.replace('?', "?team=1&");
    for (id, name, path, text) in
        [(1, "quick", &with_more, "quick"), (2, "whoami", &path, r#"None Some("127.0.0.1") Some("test")"#)]
    {
        assert_eq!(endpoint.send(&call(id, name).path(path)).await.status, 202);
        let response = next(&mut stream).await;
        assert_eq!(
            (response["id"].as_u64(), response["result"]["content"][0]["text"].as_str()),
            (Some(id), Some(text))
        );
    }
    // Two concurrent calls, progress, and a cancellation.
    assert_eq!(endpoint.send(&call(3, "reports").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["params"]["progressToken"], 3);
    assert_eq!(endpoint.send(&call(4, "waits").path(&path)).await.status, 202);
    gate.has_begun(2).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    assert_eq!(endpoint.send(&Request::post(&cancel).path(&path)).await.status, 202);
    gate.has_dropped(1).await;
    gate.open();
    assert_eq!(next(&mut stream).await["id"], 4);
    // The endpoint of the newer transport is also available.
    assert_eq!(endpoint.send(&super::request::call("quick")).await.text(), "quick");
}

#[tokio::test]
async fn requests_are_checked() {
    let (_, endpoint) = legacy().await;
    let (mut stream, path) = session(&endpoint, "2024-11-05").await;
    let good = || call(1, "quick").path(&path);
    for (name, request, status) in [
        ("no session", good().path("/message"), 404),
        ("an unknown session", good().path("/message?sessionId=AAAA"), 404),
        ("another content type", good().with("content-type", "text/plain"), 415),
        ("a compressed body", good().with("content-encoding", "gzip"), 415),
        ("another method", Request::new("GET").path(&path), 405),
        ("another method for the stream", call(1, "quick").path("/sse"), 405),
        ("another host", good().with("host", "evil.example"), 403),
        ("no host", good().without("host"), 400),
        ("another origin", good().with("origin", "https://evil.example"), 403),
        ("a stream for another host", sse().with("host", "evil.example"), 403),
    ] {
        assert_eq!(endpoint.send(&request).await.status, status, "{name}");
    }
    for (path, allowed) in [("/sse", "GET"), ("/message", "POST")] {
        let refused = endpoint.send(&Request::new("PUT").path(path)).await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)));
    }
    // Errors in the message itself are reported on the stream.
    assert_eq!(endpoint.send(&good().body("{")).await.status, 202);
    let response = next(&mut stream).await;
    assert_eq!((&response["error"]["code"], &response["id"]), (&json!(-32700), &Value::Null));
    // A body with several lines is one message.
    let multiline = good().body("{\"jsonrpc\":\"2.0\",\n\"id\":5,\r\n\"method\":\"ping\"}\n");
    assert_eq!(endpoint.send(&multiline).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 5);
}

/// Further calls are rejected until one has been answered.
#[tokio::test]
async fn calls_in_flight_are_limited() {
    let (gate, endpoint) =
        serve_with((HttpOptions::default().max_in_flight(2), ListenerOptions::default().legacy_sse(true))).await;
    let (mut stream, path) = session(&endpoint, "2024-11-05").await;
    for id in 1..=2 {
        assert_eq!(endpoint.send(&call(id, "waits").path(&path)).await.status, 202);
    }
    gate.has_begun(2).await;
    for request in [call(3, "quick").path(&path), super::request::call("quick")] {
        let refused = endpoint.send(&request).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        assert!(refused.body.ends_with(b"}"), "a body has no line break");
    }
    gate.open();
    next(&mut stream).await;
    // One permit is free again, although the other call continues.
    assert_eq!(endpoint.send(&call(3, "quick").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 3);
    // Closing the session frees the other.
    assert_eq!(endpoint.send(&call(4, "waits").path(&path)).await.status, 202);
    gate.has_begun(3).await;
    assert_eq!(endpoint.send(&super::request::call("quick")).await.status, 503);
    drop(stream);
    gate.has_dropped(3).await;
    assert_eq!(endpoint.send(&super::request::call("quick")).await.status, 200);
}

/// A function that blocks its thread does not delay other sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_session_does_not_delay_others() {
    let (gate, endpoint) = legacy().await;
    let (mut stream, path) = session(&endpoint, "2024-11-05").await;
    // The blocked thread may have been driving the sockets. New work wakes another thread.
    let (waking, runtime) = (Arc::clone(&gate), tokio::runtime::Handle::current());
    let waker = std::thread::spawn(move || {
        while !waking.is_released.load(super::Ordering::SeqCst) {
            runtime.spawn(async {});
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut waiting = Vec::new();
    for (id, name) in [(1, "blocks"), (2, "quick"), (3, "quick"), (4, "quick")] {
        let mut connection = endpoint.connect().await;
        connection.write(&call(id, name).path(&path).bytes()).await;
        waiting.push(connection);
        gate.has_begun(1).await;
    }
    for _ in 0..10 {
        assert_eq!(endpoint.send(&super::request::call("quick")).await.text(), "quick");
    }
    gate.is_released.store(true, super::Ordering::SeqCst);
    waker.join().unwrap();
    for connection in waiting {
        assert_eq!(connection.response().await.status, 202);
    }
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "released");
    // Messages on different connections have no order.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(next(&mut stream).await["id"].as_u64());
    }
    ids.sort_unstable();
    assert_eq!(ids, [2, 3, 4].map(Some));
}

#[tokio::test]
async fn the_end_of_the_stream_ends_the_session() {
    let (gate, endpoint) = legacy().await;
    let (stream, path) = session(&endpoint, "2024-11-05").await;
    assert_eq!(endpoint.send(&call(1, "waits").path(&path)).await.status, 202);
    gate.has_begun(1).await;
    drop(stream);
    gate.has_dropped(1).await;
    assert_eq!(endpoint.send(&call(2, "quick").path(&path)).await.status, 404);
}

#[tokio::test]
async fn a_body_that_arrives_after_the_end_of_the_stream_is_refused() {
    let (gate, endpoint) = legacy().await;
    let (stream, path) = session(&endpoint, "2024-11-05").await;
    let request = call(1, "waits").path(&path).with("expect", "100-continue");
    let connection = send_head(&endpoint, &request).await;
    drop(stream);
    soon(async { while endpoint.send(&call(2, "quick").path(&path)).await.status != 404 {} }).await;
    let refused = send_body(connection, &request).await;
    assert_eq!(refused.outcome(), (404, -32600));
    assert_eq!(gate.begun.load(super::Ordering::SeqCst), 0);
}

/// During a shutdown, subscriptions do not keep a stream open, and a call does so for every message of its client.
#[tokio::test]
async fn a_stream_ends_with_the_last_call() {
    let (gate, server) = server();
    let _handle = server.handle();
    let mut endpoint = Endpoint::start(server, ListenerOptions::default().legacy_sse(true)).await;
    let (mut subscribed, path) = open(&endpoint).await;
    let listen = stateless("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(endpoint.send(&listen.path(&path)).await.status, 202);
    assert_eq!(next(&mut subscribed).await["method"], "notifications/subscriptions/acknowledged");
    let (mut calling, path) = session(&endpoint, "2024-11-05").await;
    assert_eq!(endpoint.send(&call(1, "waits").path(&path)).await.status, 202);
    gate.has_begun(1).await;
    let ping = Request::post(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    let ping = ping.path(&path).with("expect", "100-continue");
    let connection = send_head(&endpoint, &ping).await;

    endpoint.stop();
    assert_eq!(subscribed.messages().await.len(), 1);
    assert_eq!(send_body(connection, &ping).await.status, 202);
    assert_eq!(next(&mut calling).await["id"], 2);
    gate.open();
    assert_eq!(next(&mut calling).await["id"], 1);
    assert_eq!(calling.messages().await, Vec::<Value>::new());
    endpoint.stopped().await;
}

/// Legacy clients cannot reconnect, regardless of their version.
#[tokio::test]
async fn the_stream_is_never_closed_early() {
    let (gate, endpoint) = legacy().await;
    let (mut stream, path) = session(&endpoint, "2025-11-25").await;
    assert_eq!(endpoint.send(&call(1, "closes_stream").path(&path)).await.status, 202);
    gate.open();
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "reconnected");
}

#[tokio::test]
async fn the_stream_is_kept_alive() {
    let options = HttpOptions::default().keep_alive(Duration::from_millis(5));
    let options = (options, ListenerOptions::default().legacy_sse(true));
    let (_, endpoint) = serve_with(options).await;
    let (mut stream, _) = open(&endpoint).await;
    assert!(stream.event().await.unwrap().is_comment);
}

#[tokio::test]
async fn the_number_of_streams_is_limited() {
    let (_, endpoint) =
        serve_with((HttpOptions::default().max_sessions(1), ListenerOptions::default().legacy_sse(true))).await;
    let (stream, path) = open(&endpoint).await;
    let before = refusals("sessions");
    let refused = endpoint.send(&sse()).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refusals("sessions") > before);
    drop(stream);
    soon(async { while endpoint.send(&call(1, "quick").path(&path)).await.status != 404 {} }).await;
    open(&endpoint).await;
}

/// Clients behind one address that authenticate as different principals do not share a limit.
#[tokio::test]
async fn streams_count_for_their_principals() {
    let options =
        (HttpOptions::default().max_sessions(2).max_peer_share(0.5), ListenerOptions::default().legacy_sse(true));
    let endpoint = Endpoint::start(server().1.authenticate(Tokens::default()), options).await;
    let mut streams = Vec::new();
    for (user, status) in [("ada", 200), ("ada", 503), ("eve", 200)] {
        let stream = endpoint.open(&sse().with("authorization", &format!("Bearer {user}"))).await;
        assert_eq!(stream.status, status, "{user}");
        streams.push(stream);
    }
}

/// A slow reader loses no response. Messages of a client that does not read are rejected eventually.
#[tokio::test]
async fn unread_output_is_limited() {
    let (_, endpoint) = legacy().await;
    let (mut stream, path) = session(&endpoint, "2024-11-05").await;
    let long = |id: u64| {
        let params = json!({"name": "long", "arguments": {"length": 100_000}});
        Request::post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).path(&path)
    };
    let mut accepted = 0;
    let refused = loop {
        let response = endpoint.send(&long(accepted)).await;
        if response.status != 202 {
            break response;
        }
        accepted += 1;
        assert!(accepted < 1000, "no request is rejected");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for id in 0..accepted {
        assert_eq!(next(&mut stream).await["id"], id);
    }
    assert_eq!(endpoint.send(&long(accepted)).await.status, 202);
}

/// A server with a listener that allows only one call in flight, and another one.
async fn two_listeners() -> (Arc<Gate>, [Endpoint; 2]) {
    let (gate, server) = server();
    let built = server.build().unwrap();
    let serve =
        |options: HttpOptions| Endpoint::serve(built.clone(), (options, ListenerOptions::default().legacy_sse(true)));
    (gate, [serve(HttpOptions::default().max_in_flight(1)).await, serve(HttpOptions::default()).await])
}

#[tokio::test]
async fn every_listener_takes_every_message() {
    let (_gate, listeners) = two_listeners().await;
    for opened_at in &listeners {
        let (mut stream, path) = session(opened_at, "2024-11-05").await;
        for (id, listener) in (1..).zip(&listeners) {
            assert_eq!(listener.send(&call(id, "quick").path(&path)).await.status, 202, "{id}");
            assert_eq!(next(&mut stream).await["id"], id);
        }
    }
}

/// The limits are those of the listener at which the stream was opened.
#[tokio::test]
async fn messages_count_where_their_stream_was_opened() {
    let (gate, listeners) = two_listeners().await;
    let [strict, lenient] = &listeners;
    let (mut limited, limited_path) = session(strict, "2024-11-05").await;
    let (mut free, free_path) = session(lenient, "2024-11-05").await;
    assert_eq!(lenient.send(&call(1, "waits").path(&limited_path)).await.status, 202);
    gate.has_begun(1).await;
    for listener in &listeners {
        let refused = listener.send(&call(2, "quick").path(&limited_path)).await;
        assert_eq!((refused.status, &refused.json()["id"]), (503, &json!(2)));
        assert_eq!(listener.send(&call(2, "quick").path(&free_path)).await.status, 202);
        assert_eq!(next(&mut free).await["id"], 2);
    }
    gate.open();
    assert_eq!(next(&mut limited).await["id"], 1);
}

/// Functions hold their arguments for as long as they run.
#[tokio::test]
async fn the_arguments_of_calls_in_flight_are_limited() {
    const LENGTH: usize = 100_000;
    let options =
        HttpOptions::default().max_body_bytes(2 * LENGTH).max_total_body_bytes(10 * LENGTH).max_peer_share(1.0);
    let (_gate, endpoint) = serve_with((options, ListenerOptions::default().legacy_sse(true))).await;
    let (_stream, path) = session(&endpoint, "2024-11-05").await;
    let padded = |id: u64| {
        let params = json!({"name": "waits", "_meta": {"padding": "x".repeat(LENGTH)}});
        Request::post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).path(&path)
    };
    let mut accepted = 0;
    let refused = loop {
        let response = endpoint.send(&padded(accepted)).await;
        if response.status != 202 {
            break response.status;
        }
        accepted += 1;
        assert!(accepted < 100, "no call is refused");
    };
    assert_eq!((refused, accepted), (503, 10));
}
