//! Replicas that are gone, and messages that the backend loses.

use std::time::{Duration, Instant};

use mcp_tests::backend::Health;
use serde_json::{Value, json};

use super::{accepted, cluster, configure, options, until_status};
use crate::http::{
    client::Response,
    legacy::{call, next, session},
    replicas::{Cluster, LEASE},
};

#[tokio::test]
async fn the_session_ends_with_the_replica_that_holds_its_stream() {
    let mut cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let request = call(1, "quick").path(&path);
    accepted(&cluster, 1, &request).await;
    assert_eq!(next(&mut stream).await["id"], 1);
    cluster.kill(0);
    let killed_at = Instant::now();
    until_status(&cluster, 1, &request, 404).await;
    assert!(killed_at.elapsed() < LEASE * 5, "{:?}", killed_at.elapsed());
    // The client opens another session.
    let (mut stream, path) = session(cluster.at(1), "2024-11-05").await;
    accepted(&cluster, 1, &call(2, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 2);
}

/// The others consider the sessions of a replica without a lease lost, so it ends them.
#[tokio::test]
async fn a_replica_that_loses_its_lease_ends_its_streams() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "waits").path(&path)).await;
    cluster.gate(0).has_begun(1).await;
    let slot: u64 = path.split(['=', '.']).nth(1).unwrap().parse().unwrap();
    cluster.expire_lease(slot << 32).await;
    let messages = stream.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!((&messages[0]["id"], &messages[0]["error"]["code"]), (&json!(1), &json!(-32603)));
    for replica in [0, 1] {
        until_status(&cluster, replica, &call(2, "quick").path(&path), 404).await;
    }
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 3);
}

#[tokio::test]
async fn messages_are_rejected_while_the_backend_fails() {
    let retry = (503, Some("1"));
    let unknown = (504, None);
    for (replica, health, expected) in [
        (1, Health::Failing, retry),
        (1, Health::Hanging, retry),
        (1, Health::Mute, unknown),
        (1, Health::Deaf, unknown),
        (0, Health::Deaf, unknown),
        (0, Health::Failing, unknown),
    ] {
        // The lease must outlive the failure.
        let cluster = Cluster::start_with(2, options, |server| configure(server).lease(Duration::from_secs(60))).await;
        let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
        accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
        assert_eq!(next(&mut stream).await["id"], 1);
        cluster.set_backend(replica, health);
        let began_at = Instant::now();
        let refused = cluster.at(1).send(&call(2, "quick").path(&path)).await;
        assert_eq!((refused.status, refused.header("retry-after")), expected, "{replica} {health:?}");
        assert!(began_at.elapsed() < Duration::from_secs(30), "{:?}", began_at.elapsed());
        // What needs no other replica goes on.
        accepted(&cluster, 0, &call(3, "quick").path(&path)).await;
        until_id(&mut stream, 3).await;
        cluster.set_backend(replica, Health::Up);
        until_status(&cluster, 1, &call(4, "quick").path(&path), 202).await;
        until_id(&mut stream, 4).await;
    }
}

/// Reads responses until one has this id.
async fn until_id(stream: &mut Response, id: u64) -> Value {
    loop {
        let message = next(stream).await;
        if message["id"] == id {
            return message;
        }
    }
}

/// A message that is repeated because its reply was lost is received once.
#[tokio::test]
async fn a_message_whose_reply_is_lost_is_received_once() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
    next(&mut stream).await;
    cluster.set_backend(1, Health::Deaf);
    let request = call(2, "waits").path(&path);
    let posted = async { cluster.at(1).send(&request).await };
    let repaired = async {
        cluster.gate(0).has_begun(1).await;
        cluster.set_backend(1, Health::Up);
    };
    let (response, ()) = tokio::join!(posted, repaired);
    assert_eq!(response.status, 202, "{response:?}");
    cluster.gate(0).open();
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "waited");
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    // A second call would have responded with an error, because its id was in use.
    assert_eq!(next(&mut stream).await["id"], 3);
}

/// A client that retried the call would run the function twice.
#[tokio::test]
async fn a_message_that_may_have_been_received_is_not_to_be_sent_again() {
    for health in [Health::Failing, Health::Hanging, Health::Deaf] {
        let cluster = Cluster::start_with(2, options, |server| configure(server).lease(Duration::from_secs(60))).await;
        let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
        accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
        next(&mut stream).await;
        cluster.set_backend(1, Health::Deaf);
        let request = call(2, "waits").path(&path);
        let failed = async {
            cluster.gate(0).has_begun(1).await;
            cluster.set_backend(1, health);
        };
        let (response, ()) = tokio::join!(cluster.at(1).send(&request), failed);
        assert_eq!((response.status, response.header("retry-after")), (504, None), "{health:?} {response:?}");
        let error = &response.json()["error"];
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().unwrap().ends_with("it may have received the message"), "{error}");
        cluster.gate(0).open();
        assert_eq!(next(&mut stream).await["id"], 2);
    }
}

/// Nothing is sent to a replica that is gone.
#[tokio::test]
async fn messages_for_a_replica_that_is_gone_are_refused_at_once() {
    let cluster = cluster(2).await;
    let (_stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
    cluster.set_backend(1, Health::Mute);
    let slot: u32 = path.split(['=', '.']).nth(1).unwrap().parse().unwrap();
    let gone = if slot == 1 { 2 } else { slot - 1 };
    let unknown = format!("/message?sessionId={gone}.{}", "x".repeat(32));
    assert_eq!(cluster.at(1).send(&call(1, "quick").path(&unknown)).await.status, 404);
}
