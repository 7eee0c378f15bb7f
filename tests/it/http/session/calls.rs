//! Calls in sessions: duplicate ids, cancellation, and responses to calls that the server ends.

use std::{sync::atomic::Ordering, time::Duration};

use mcp_runtime::{HttpOptions, tool};
use serde_json::{Value, json};

use crate::http::{
    client::{Connection, Endpoint, soon},
    request::{Request, call},
    serve, serve_with, server,
};

#[tokio::test]
async fn a_duplicate_id_in_flight_is_rejected() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let (first, other) = (session.call(1, "waits"), session.ping());
    let second = async {
        gate.has_begun(1).await;
        let refused = endpoint.send(&session.call(1, "quick")).await;
        assert_eq!(refused.outcome(), (200, -32600));
        assert_eq!(refused.json()["id"], 1);
        assert_eq!(endpoint.send(&other).await.status, 200);
        // Ids of different sessions are independent.
        let other_session = endpoint.session("2025-11-25").await;
        assert_eq!(endpoint.send(&other_session.call(1, "quick")).await.text(), "quick");
        gate.open();
    };
    let (first, ()) = tokio::join!(endpoint.send(&first), second);
    assert_eq!(first.text(), "waited");
    assert_eq!(endpoint.send(&session.call(1, "quick")).await.text(), "quick");
}

/// Wait a little.
#[tool]
async fn nap() -> &'static str {
    tokio::time::sleep(Duration::from_millis(20)).await;
    "awake"
}

/// Of two concurrent requests with one id, the second is rejected unless the first has ended. Both are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_with_one_id_are_both_answered() {
    let endpoint = Endpoint::start(server().1.with::<nap>(), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    for id in 0..200 {
        let request = session.call(id, "nap");
        let (one, other) = tokio::join!(soon(endpoint.send(&request)), soon(endpoint.send(&request)));
        let outcomes = [one.outcome(), other.outcome()];
        assert!(outcomes.contains(&(200, 0)), "{outcomes:?}");
        assert!(outcomes.iter().all(|(_, code)| [0, -32600].contains(code)), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_call_is_cancelled_by_another_request() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let other_session = endpoint.session("2025-11-25").await;
    let waiting = session.call(1, "waits");
    let cancel = async {
        gate.has_begun(1).await;
        assert_eq!(endpoint.send(&other_session.cancel(1)).await.status, 202);
        assert!(session.is_alive().await);
        assert_eq!(gate.dropped.load(Ordering::SeqCst), 0);
        assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    };
    // The response is an event stream without events.
    let (response, ()) = tokio::join!(endpoint.open(&waiting), cancel);
    assert_eq!(response.status, 200);
    let mut response = response;
    assert_eq!(response.messages().await, Vec::<Value>::new());
    gate.has_dropped(1).await;

    // The same holds if the response is a stream already.
    let mut streamed = endpoint.open(&session.call(2, "reports")).await;
    assert!(streamed.message().await.is_some());
    assert_eq!(endpoint.send(&session.cancel(2)).await.status, 202);
    assert_eq!(streamed.messages().await, Vec::<Value>::new());
    gate.has_dropped(2).await;
}

#[tokio::test]
async fn a_disconnected_client_cancels_nothing() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let mut connection = endpoint.connect().await;
    connection.write(&session.call(1, "waits").bytes()).await;
    gate.has_begun(1).await;
    drop(connection);
    for id in 0..20 {
        assert_eq!(endpoint.send(&session.call(100 + id, "quick")).await.status, 200);
    }
    assert_eq!(endpoint.send(&session.call(1, "quick")).await.outcome(), (200, -32600), "the call is still in flight");
    gate.open();
    gate.has_dropped(1).await;
}

#[tokio::test]
async fn closing_a_session_fails_its_calls_and_ends_its_streams() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let mut general = endpoint.open(&session.get()).await;
    let mut streamed = endpoint.open(&session.call(1, "reports")).await;
    assert!(streamed.message().await.is_some());
    assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    assert_eq!(soon(general.messages()).await, Vec::<Value>::new());
    let failed = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "the session has ended"}});
    assert_eq!(soon(streamed.messages()).await, [failed]);
    gate.has_dropped(1).await;
}

/// A client that waits for a response gets exactly one, however the call ends.
#[tokio::test]
async fn calls_that_the_server_ends_are_answered_once() {
    let batch = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "waits"}});
    for stream_after in [Duration::ZERO, Duration::from_secs(600)] {
        let (gate, mut endpoint) = serve_with(HttpOptions::default().stream_after(stream_after)).await;
        let session = endpoint.session("2025-03-26").await;
        let messages = [session.call(1, "waits"), session.post(&json!([batch(2), batch(3)]))];
        let connections = [endpoint.connect().await, endpoint.connect().await];
        let waiting = connections.into_iter().zip(messages);
        let waiting = waiting.map(|(connection, call)| tokio::spawn(async move { responses(connection, &call).await }));
        let waiting: Vec<_> = waiting.collect();
        gate.has_begun(3).await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        let mut ids = Vec::new();
        for waiting in waiting {
            for response in soon(waiting).await.unwrap() {
                assert_eq!(response["error"]["message"], "the session has ended");
                ids.push(response["id"].as_u64().unwrap());
            }
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3], "{stream_after:?}");
        gate.has_dropped(3).await;
        drop(session);
        endpoint.stop();
    }
}

/// Returns the responses to the requests of a message.
async fn responses(connection: Connection, request: &Request) -> Vec<Value> {
    let mut response = connection.open(request).await;
    let messages = match response.header("content-type") {
        Some("text/event-stream") => response.messages().await,
        _ => vec![response.full().await.0.json()],
    };
    let parts = messages.into_iter().flat_map(|message| match message {
        Value::Array(batch) => batch,
        message => vec![message],
    });
    parts.filter(|message| message.get("id").is_some()).collect()
}

#[tokio::test]
async fn calls_are_answered_when_the_server_shuts_down() {
    let (gate, server) = server();
    let options = HttpOptions::default().stream_after(Duration::ZERO);
    let endpoint = Endpoint::start(server.shutdown_grace(Duration::from_millis(50)), options).await;
    let session = endpoint.session("2025-11-25").await;
    let mut streams = [endpoint.open(&session.call(1, "waits")).await, endpoint.open(&call("waits")).await];
    gate.has_begun(2).await;
    drop(session);
    let stopped = tokio::spawn(endpoint.stopped());
    for stream in &mut streams {
        let messages = stream.messages().await;
        let errors: Vec<_> = messages.iter().map(|message| message["error"]["message"].as_str()).collect();
        assert_eq!(errors, [Some("the server is shutting down")]);
    }
    stopped.await.unwrap();
}
