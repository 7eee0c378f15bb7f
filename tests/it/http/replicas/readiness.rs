//! When replicas should get requests, and what becomes of those that a replica has when it is drained.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use mcp_tests::backend::{Health, UnreliableBackend};
use serde_json::json;

use super::Cluster;
use crate::http::{
    client::{Endpoint, Session, soon},
    principals::{in_session, next_event, open, post, send_as, service},
    request::{Request, call, initialize},
    server,
};

const HOUR: Duration = Duration::from_secs(3600);

fn get(path: &str) -> Request {
    Request::new("GET").path(path)
}

async fn status(endpoint: &Endpoint, path: &str) -> u16 {
    endpoint.send(&get(path)).await.status
}

/// Waits until the readiness check has this status.
async fn until_ready(endpoint: &Endpoint, expected: u16) {
    soon(async {
        while status(endpoint, "/readyz").await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_replica_is_ready_while_the_backend_responds() {
    for health in [Health::Failing, Health::Hanging] {
        let cluster = Cluster::start(2).await;
        assert_eq!(status(cluster.at(0), "/readyz").await, 200);
        cluster.set_backend(0, health);
        until_ready(cluster.at(0), 503).await;
        let unready = cluster.at(0).send(&get("/readyz")).await;
        assert_eq!(unready.body, br#"{"status":"unavailable","reason":"the backend does not respond"}"#);
        assert_eq!(unready.header("retry-after"), Some("1"));
        // Neither the process nor the other replica is affected, and a call that needs no backend goes on.
        assert_eq!(status(cluster.at(0), "/healthz").await, 200);
        assert_eq!(status(cluster.at(1), "/readyz").await, 200);
        assert_eq!(cluster.at(0).send(&call("quick")).await.text(), "quick", "{health:?}");
        cluster.set_backend(0, Health::Up);
        until_ready(cluster.at(0), 200).await;
    }
}

/// A full backend can still be read, but new sessions and tasks cannot be stored.
#[tokio::test]
async fn a_replica_is_not_ready_while_the_backend_is_full() {
    let cluster = Cluster::start(2).await;
    assert_eq!(status(cluster.at(0), "/readyz").await, 200);
    cluster.set_backend(0, Health::Full);
    assert_eq!(cluster.at(0).send(&initialize("2025-11-25")).await.status, 503);
    until_ready(cluster.at(0), 503).await;
    assert_eq!(
        cluster.at(0).send(&get("/readyz")).await.body,
        br#"{"status":"unavailable","reason":"the backend accepts no changes"}"#
    );
    assert_eq!(status(cluster.at(0), "/healthz").await, 200);
    assert_eq!(status(cluster.at(1), "/readyz").await, 200);
    cluster.set_backend(0, Health::Up);
    until_ready(cluster.at(0), 200).await;
    assert_eq!(cluster.at(0).send(&initialize("2025-11-25")).await.status, 200);
}

#[tokio::test]
async fn frequent_probes_do_not_burden_the_backend() {
    let cluster = Cluster::start(1).await;
    let mut connection = cluster.at(0).connect().await;
    let before = cluster.operations(0);
    for _ in 0..500 {
        let (response, next) = connection.send(&get("/readyz")).await;
        assert_eq!(response.status, 200);
        connection = next;
    }
    let operations = cluster.operations(0) - before;
    assert!(operations < 100, "{operations} operations for 500 probes");
}

/// Load balancers learn that a server will end before it takes no more calls.
#[tokio::test]
async fn a_server_that_drains_serves_all_requests_but_is_not_ready() {
    let (gate, server) = crate::http::server();
    let options = ListenerOptions::default().drain_delay(HOUR);
    let mut endpoint = Endpoint::start(server, options).await;
    let mut streamed = endpoint.open(&call("reports")).await;
    assert!(streamed.message().await.is_some());
    assert_eq!(endpoint.send(&get("/readyz")).await.body, br#"{"status":"ok"}"#);
    endpoint.stop();
    until_ready(&endpoint, 503).await;
    assert_eq!(
        endpoint.send(&get("/readyz")).await.body,
        br#"{"status":"unavailable","reason":"the server is shutting down"}"#
    );
    assert_eq!(status(&endpoint, "/healthz").await, 200);
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
    let session = endpoint.session("2025-11-25").await;
    assert_eq!(endpoint.send(&session.call(1, "quick")).await.text(), "quick");
    gate.open();
    assert_eq!(streamed.messages().await.len(), 2);
}

#[tokio::test]
async fn a_drained_replica_finishes_its_calls_and_leaves_its_sessions_to_others() {
    let options = || ListenerOptions::default().drain_delay(Duration::from_millis(1));
    let mut cluster = Cluster::start_with(2, options, |server| server.shutdown_grace(HOUR)).await;
    let session = cluster.at(0).session("2025-11-25").await;
    let mut listening = cluster.at(0).open(&session.get()).await;
    let mut streamed = cluster.at(0).open(&session.call(1, "reports")).await;
    while streamed.message().await.expect("the stream ended")["method"] != "notifications/progress" {}
    let id = session.id.clone();
    cluster.gate(0).has_begun(1).await;
    cluster.stop(0);
    // Running calls are finished.
    cluster.gate(0).open();
    let rest = streamed.messages().await;
    let result = rest.last().unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "reported", "{rest:?}");
    assert!(listening.messages().await.is_empty());
    cluster.stopped(0).await;
    let session = Session { endpoint: cluster.at(1), version: "2025-11-25", id };
    assert_eq!(cluster.at(1).send(&session.call(2, "quick")).await.text(), "quick");
}

/// The calls end with the grace period, and their errors are stored before the process ends.
#[tokio::test]
async fn a_mounted_replica_leaves_the_errors_of_its_calls_to_others() {
    let shared = UnreliableBackend::default();
    let [(stopped, backend), (other, _)] = [(); 2].map(|()| {
        let backend = Arc::new(shared.other_process());
        (service(server().1.backend(Arc::clone(&backend)), HttpOptions::default()), backend)
    });
    let id = open(&stopped, None).await;
    let call = post(&id, "tools/call", json!({"name": "reports", "_meta": {"progressToken": 1}}));
    let mut lost = send_as(&stopped, None, call).await.into_body();
    let (_, event) = next_event(&mut lost).await;
    drop(lost);
    stopped.graceful_shutdown(Duration::from_millis(100)).await;
    backend.set_health(Health::Failing);
    let resume = in_session(&id, get("/mcp")).with("accept", "text/event-stream").with("last-event-id", &event);
    let (message, _) = next_event(&mut send_as(&other, None, resume).await.into_body()).await;
    assert_eq!(message["error"]["message"], "the server is shutting down", "{message}");
}
