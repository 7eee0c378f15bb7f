//! The transport of 2024-11-05: only the replica that holds the stream of a session knows it.

use std::time::Duration;

use mcp_runtime::http::ListenerOptions;
use serde_json::json;

use super::{
    Cluster,
    sessions::{open, until_method},
};
use crate::http::legacy::{call, next, session};

const HOUR: Duration = Duration::from_secs(3600);

async fn cluster() -> Cluster {
    let options = || ListenerOptions::default().legacy_sse(true);
    Cluster::start_with(2, options, |server| server.shutdown_grace(HOUR)).await
}

#[tokio::test]
async fn the_error_at_another_replica_names_sticky_routing() {
    let cluster = cluster().await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let elsewhere = cluster.at(1).send(&call(1, "quick").path(&path)).await;
    assert_eq!(elsewhere.status, 404);
    let message = elsewhere.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("sticky routing"), "{message}");
    // The response does not reveal whether the session exists.
    let unknown = cluster.at(1).send(&call(1, "quick").path("/message?sessionId=unknown")).await;
    assert_eq!((unknown.status, unknown.body), (404, elsewhere.body));
    assert_eq!(cluster.at(0).send(&call(1, "quick").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 1);
}

/// No other replica knows the session, so its calls do not depend on the lease.
#[tokio::test]
async fn calls_of_a_session_that_is_not_shared_outlive_the_lease() {
    let cluster = cluster().await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    assert_eq!(cluster.at(0).send(&call(1, "waits").path(&path)).await.status, 202);
    cluster.gate(0).has_begun(1).await;
    let shared = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    shared.initialized().await;
    let mut asking = cluster.at(0).open(&shared.call(1, "asks")).await;
    let question = until_method(&mut asking, "elicitation/create").await["id"].as_u64().unwrap();
    cluster.expire_lease(question).await;
    let lost = asking.messages().await;
    assert!(lost.iter().any(|message| message["error"].is_object()), "{lost:?}");
    cluster.gate(0).open();
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "waited");
}

/// Clients whose calls are finished reconnect to other replicas.
#[tokio::test]
async fn a_drained_replica_ends_each_stream_when_its_calls_are_finished() {
    let mut cluster = cluster().await;
    let (mut idle, _) = session(cluster.at(0), "2024-11-05").await;
    let (mut waiting, path) = session(cluster.at(0), "2024-11-05").await;
    assert_eq!(cluster.at(0).send(&call(1, "waits").path(&path)).await.status, 202);
    cluster.gate(0).has_begun(1).await;
    cluster.stop(0);
    assert!(idle.messages().await.is_empty());
    cluster.gate(0).open();
    let finished = waiting.messages().await;
    assert_eq!(finished.len(), 1, "{finished:?}");
    assert_eq!(finished[0]["result"]["content"][0]["text"], "waited");
    cluster.stopped(0).await;
    let (mut stream, path) = session(cluster.at(1), "2024-11-05").await;
    assert_eq!(cluster.at(1).send(&call(1, "quick").path(&path)).await.status, 202);
    assert_eq!(next(&mut stream).await["id"], 1);
}
