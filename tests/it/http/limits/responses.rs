//! Responses that clients do not read or do not fetch.

use std::time::Duration;

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use serde_json::json;

use super::{MEGABYTE, UNREAD, served};
use crate::http::{
    client::Endpoint,
    request::{call, initialize, stateless},
    serve, serve_with, server,
};

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
    // A session continues after a response that does not fit.
    let session = endpoint.session("2025-11-25").await;
    let params = json!({"name": "long", "arguments": {"length": UNREAD + 2 * MEGABYTE}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(endpoint.send(&session.post(&message)).await.status, 503);
    assert!(session.is_alive().await);
    // Each request of a batch gets a response.
    let session = endpoint.session("2025-03-26").await;
    let mut other = message.clone();
    other["id"] = json!("b");
    let refused = endpoint.send(&session.post(&json!([message, other]))).await;
    let errors = refused.json();
    assert_eq!((refused.status, &errors[0]["id"], &errors[1]["id"]), (503, &json!(1), &json!("b")), "{errors}");
    assert_eq!(errors[1]["error"]["message"], "too much response data is unread");
    let read = unread.remove(0).full().await.0;
    assert_eq!(read.text().len(), UNREAD);
    assert_eq!(endpoint.send(&long(UNREAD + 2 * MEGABYTE)).await.status, 200);
}

/// The client never learns its id.
#[tokio::test]
async fn a_session_whose_description_does_not_fit_ends() {
    let server = server().1.instructions("x".repeat(32 << 10)).build().unwrap();
    let handle = server.handle();
    let endpoint = Endpoint::serve(server, HttpOptions::default().max_unread_response_bytes(20 << 10)).await;
    let refused = endpoint.send(&initialize("2025-11-25")).await;
    assert_eq!((refused.outcome(), refused.header("mcp-session-id")), ((503, -32603), None));
    assert_eq!(handle.sessions().len(), 0);
}

/// The connection is closed, but its stream can be resumed.
#[tokio::test]
async fn a_client_that_stops_reading_times_out() {
    let options = ListenerOptions::default().write_timeout(Duration::from_millis(200)).max_connections(1);
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
