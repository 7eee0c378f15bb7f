//! Failures of the backend and of replicas, and leases that expire.

use std::time::Duration;

use mcp_runtime::{HttpOptions, backend::Records as _};
use mcp_tests::backend::Health;
use serde_json::json;
use tokio::sync::mpsc;

use super::{notification, open, request, until_method, until_status};
use crate::{
    http::{
        client::{Session, send_body, send_head, soon},
        replicas::{Cluster, LEASE},
        request::initialize,
    },
    sessions::asking_later,
};

/// A replica that learns that it has missed announcements reads the changes from the backend.
#[tokio::test]
async fn lost_announcements_are_made_up_for() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let ended = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&ended.ping()).await.status, 200);
    let mut call = cluster.at(0).open(&session.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await;
    for replica in 0..2 {
        cluster.set_backend(replica, Health::Deaf);
    }
    let content = json!({"action": "accept", "content": {"sure": true}});
    let answer = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": content}));
    assert_eq!(cluster.at(1).send(&answer).await.status, 202);
    let waiting = ended.call(2, "waits");
    let lost = async {
        cluster.gate(1).has_begun(1).await;
        assert_eq!(cluster.at(0).send(&ended.delete()).await.status, 204);
        for replica in 0..2 {
            cluster.set_backend(replica, Health::Up);
        }
    };
    let (failed, ()) = tokio::join!(cluster.at(1).send(&waiting), lost);
    assert!(failed.json()["error"]["message"].as_str().unwrap().contains("the session has ended"));
    assert_eq!(cluster.at(1).send(&ended.ping()).await.status, 404);
    assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
}

#[tokio::test]
async fn a_backend_that_fails_affects_only_what_needs_it() {
    let cluster = Cluster::start(2).await;
    let known = open(cluster.at(0), "2025-11-25", json!({})).await;
    let ending = open(cluster.at(0), "2025-11-25", json!({})).await;
    let requests = [
        ("a call of a known session", known.call(1, "quick"), 200),
        ("a new session", initialize("2025-11-25"), 503),
        ("a change", known.post(&request(2, "logging/setLevel", &json!({"level": "error"}))), 503),
        ("the end of a session", ending.delete(), 503),
    ];
    for replica in 0..2 {
        cluster.set_backend(replica, Health::Failing);
    }
    for (name, request, status) in &requests {
        let answered = cluster.at(0).send(request).await;
        assert_eq!(answered.status, *status, "{name}");
        assert_eq!(answered.header("retry-after").is_some(), *status == 503, "{name}");
        assert!(*name != "a change" || answered.json()["error"]["code"] == -32603, "{answered:?}");
    }
    let unknown = cluster.at(1).send(&known.ping()).await;
    assert_eq!((unknown.status, unknown.header("retry-after").is_some()), (503, true));
    for replica in 0..2 {
        cluster.set_backend(replica, Health::Up);
    }
    until_status(cluster.at(1), &known.ping(), 200).await;
    for (_, request, _) in &requests[..3] {
        until_status(cluster.at(0), request, 200).await;
    }
    // A failed attempt may have deleted the session, so the next one may not find it.
    let ended = soon(async {
        loop {
            match cluster.at(0).send(&requests[3].1).await.status {
                503 => tokio::time::sleep(Duration::from_millis(2)).await,
                status => break status,
            }
        }
    });
    assert!(matches!(ended.await, 204 | 404));
    for replica in 0..2 {
        until_status(cluster.at(replica), &ending.ping(), 404).await;
    }
}

/// A replica that dies before it forwards an answer leaves the question open.
#[tokio::test]
async fn a_replica_that_dies_takes_only_its_own_calls_with_it() {
    let mut cluster = Cluster::start(3).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let id = session.id.clone();
    let call = Session { endpoint: cluster.at(1), version: session.version, id: id.clone() };
    let mut asking = cluster.at(1).open(&call.call(1, "asks")).await;
    let question = until_method(&mut asking, "elicitation/create").await;
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let answer = call.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accept}));
    let (ping, quick) = (call.ping(), call.call(2, "quick"));
    cluster.kill(0);
    assert_eq!(cluster.at(2).send(&answer).await.status, 202);
    assert_eq!(asking.messages().await[0]["result"]["content"][0]["text"], "sure");
    assert_eq!(cluster.at(2).send(&ping).await.status, 200);
    cluster.kill(1);
    // Whether or not its lease has already expired, the answer has no effect.
    assert_eq!(cluster.at(2).send(&answer).await.status, 202);
    tokio::time::sleep(LEASE).await;
    assert_eq!(cluster.at(2).send(&answer).await.status, 202);
    assert_eq!(cluster.at(2).send(&quick).await.json()["result"]["content"][0]["text"], "quick");
}

/// A replica that the others consider gone fails its calls, and goes on with a new lease.
#[tokio::test]
async fn a_replica_that_has_lost_its_lease_fails_its_calls() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let mut call = cluster.at(0).open(&session.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await["id"].as_u64().unwrap();
    let waiting = session.call(3, "waits");
    let lost = async {
        cluster.gate(0).has_begun(1).await;
        cluster.expire_lease(question).await;
    };
    let (failed, ()) = tokio::join!(cluster.at(0).send(&waiting), lost);
    assert!(failed.json()["error"]["message"].as_str().is_some_and(|message| message.contains("lost")), "{failed:?}");
    let messages = call.messages().await;
    let outcomes = messages.iter().filter(|message| message["id"] == 1).collect::<Vec<_>>();
    assert_eq!(outcomes.len(), 1, "{messages:?}");
    assert!(outcomes[0]["error"]["message"].as_str().is_some_and(|message| message.contains("lost")), "{messages:?}");
    let mut call = cluster.at(0).open(&session.call(2, "asks")).await;
    let again = until_method(&mut call, "elicitation/create").await["id"].as_u64().unwrap();
    assert_ne!(question >> 32, again >> 32);
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let answer = session.post(&json!({"jsonrpc": "2.0", "id": again, "result": accept}));
    assert_eq!(cluster.at(1).send(&answer).await.status, 202);
    assert_eq!(call.messages().await.last().unwrap()["result"]["content"][0]["text"], "sure");
}

/// The answer to a question of a lease that is gone would be lost.
#[tokio::test]
async fn a_replica_that_has_lost_its_lease_withdraws_its_questions_outside_of_calls() {
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let configure = |server| asking_later(server, sender.clone());
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"roots": {}})).await;
    session.initialized().await;
    let mut stream = cluster.at(0).open(&session.get()).await;
    assert_eq!(cluster.at(0).send(&session.call(1, "asks_later")).await.status, 200);
    let question = until_method(&mut stream, "roots/list").await["id"].as_u64().unwrap();
    cluster.expire_lease(question).await;
    let error = soon(outcomes.recv()).await.unwrap().unwrap_err();
    assert!(error.contains("lost its connection to the other replicas"), "{error}");
}

/// The client must not repeat a batch whose calls have run.
#[tokio::test]
async fn calls_of_a_batch_are_answered_although_other_replicas_cannot_be_told() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-03-26", json!({})).await;
    let cancelled = notification("notifications/cancelled", &json!({"requestId": 99}));
    cluster.set_backend(0, Health::Failing);
    for tool in ["quick", "waits"] {
        cluster.gate(0).open();
        let batch = json!([request(1, "tools/call", &json!({"name": tool})), cancelled]);
        let answered = cluster.at(0).send(&session.post(&batch)).await;
        assert_eq!(answered.status, 200, "{tool}");
        assert!(answered.json()[0]["result"].is_object(), "{tool} {answered:?}");
    }
    assert_eq!(cluster.at(0).send(&session.post(&json!([cancelled]))).await.status, 503);
}

/// The message and the end of the session reach a replica while it is stopped. The announcement is lost.
#[tokio::test]
async fn a_replica_that_was_stopped_reads_a_session_before_it_trusts_its_copy() {
    let cluster = Cluster::start(2).await;
    for is_begun in [false, true] {
        let session = open(cluster.at(0), "2025-11-25", json!({})).await;
        let (ping, mut begun) = (session.ping(), None);
        assert_eq!(cluster.at(1).send(&ping).await.status, 200);
        if is_begun {
            let expecting = session.ping().and("expect", "100-continue");
            begun = Some((send_head(cluster.at(1), &expecting).await, expecting));
        }
        cluster.set_backend(1, Health::Deaf);
        let delete = async { assert_eq!(cluster.at(0).send(&session.delete()).await.status, 204) };
        cluster.stop_for(1, LEASE / 2, delete).await;
        let answered = match begun {
            Some((begun, request)) => send_body(begun, &request).await,
            None => cluster.at(1).send(&ping).await,
        };
        assert_eq!(answered.status, 404, "the head arrived before: {is_begun}");
        cluster.set_backend(1, Health::Up);
        // The replica has a lease again, and trusts its copies of other sessions.
        let other = open(cluster.at(0), "2025-11-25", json!({})).await;
        assert_eq!(cluster.at(1).send(&other.ping()).await.status, 200);
    }
}

/// A replica whose announcements do not arrive notices that no later than its lease ends.
#[tokio::test]
async fn a_copy_of_a_session_is_not_trusted_for_longer_than_a_lease() {
    let cluster = Cluster::start(2).await;
    let [ended, kept] =
        [open(cluster.at(0), "2025-11-25", json!({})).await, open(cluster.at(0), "2025-11-25", json!({})).await];
    for session in [&ended, &kept] {
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    }
    cluster.set_backend(1, Health::Deaf);
    assert_eq!(cluster.at(0).send(&ended.delete()).await.status, 204);
    tokio::time::sleep(LEASE + LEASE / 2).await;
    for (session, status) in [(&ended, 404), (&kept, 200)] {
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, status);
    }
}

/// The replica trusts its copy of the session at this time, and notices its end as it writes the change.
#[tokio::test]
async fn a_session_that_has_ended_elsewhere_is_not_changed() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    cluster.set_backend(1, Health::Deaf);
    assert_eq!(cluster.at(0).send(&session.delete()).await.status, 204);
    let change = session.post(&request(1, "logging/setLevel", &json!({"level": "error"})));
    assert_eq!(cluster.at(1).send(&change).await.outcome(), (404, -32600));
}

#[tokio::test]
async fn a_replica_without_a_lease_serves_no_session_that_it_cannot_read() {
    for health in [Health::Failing, Health::Hanging] {
        let cluster = Cluster::start(2).await;
        let [ended, kept] =
            [open(cluster.at(0), "2025-11-25", json!({})).await, open(cluster.at(0), "2025-11-25", json!({})).await];
        for session in [&ended, &kept] {
            assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
        }
        cluster.set_backend(1, health);
        assert_eq!(cluster.at(0).send(&ended.delete()).await.status, 204);
        tokio::time::sleep(LEASE + LEASE / 2).await;
        for request in [ended.ping(), kept.ping(), kept.call(1, "quick"), kept.get()] {
            let refused = cluster.at(1).send(&request).await;
            assert_eq!(
                (refused.status, refused.header("retry-after").is_some()),
                (503, true),
                "{health:?} {refused:?}"
            );
        }
        cluster.set_backend(1, Health::Up);
        until_status(cluster.at(1), &ended.ping(), 404).await;
        until_status(cluster.at(1), &kept.ping(), 200).await;
    }
}

/// The other replicas need not wait for the end of its lease to answer what it has left.
#[tokio::test]
async fn a_replica_gives_its_lease_up_before_it_ends() {
    let mut cluster = Cluster::start(1).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let mut call = cluster.at(0).open(&session.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await;
    let key = format!("mcp/1/replica/{}", question["id"].as_u64().unwrap() >> 32);
    assert!(cluster.backend().get(&key).await.unwrap().is_some());
    let answer = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}}));
    assert_eq!(cluster.at(0).send(&answer).await.status, 202);
    drop(session);
    cluster.set_backend(0, Health::Slow(Duration::from_millis(200)));
    cluster.stop(0);
    cluster.stopped(0).await;
    assert!(cluster.backend().get(&key).await.unwrap().is_none());
}

/// Changes of one replica do not conflict with each other, and conflicts with those of another one are repeated.
#[tokio::test]
async fn changes_of_a_session_at_the_same_time_are_all_made() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    for replica in 0..2 {
        cluster.set_backend(replica, Health::Slow(Duration::from_millis(2)));
    }
    let mut connections = Vec::new();
    for id in 0..40 {
        let mut connection = cluster.at(if id % 2 == 0 { 0 } else { 1 }).connect().await;
        let change = session.post(&request(id, "logging/setLevel", &json!({"level": "error"})));
        connection.write(&change.bytes()).await;
        connections.push(connection);
    }
    for connection in connections {
        assert_eq!(connection.response().await.full().await.0.status, 200);
    }
}

/// The replica does not read the sessions again at once, since a read has just failed.
#[tokio::test]
async fn a_copy_from_before_a_lease_is_not_used_unread() {
    let cluster = Cluster::start(2).await;
    let ended = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&ended.ping()).await.status, 200);
    cluster.set_backend(1, Health::Failing);
    assert_eq!(cluster.at(0).send(&ended.delete()).await.status, 204);
    tokio::time::sleep(LEASE + LEASE / 2).await;
    assert_eq!(cluster.at(1).send(&ended.ping()).await.status, 503);
    cluster.set_backend(1, Health::Up);
    let ended_here = async {
        loop {
            match cluster.at(1).send(&ended.ping()).await.status {
                404 => break,
                status => assert_eq!(status, 503),
            }
        }
    };
    soon(ended_here).await;
}

/// Reading suffices to confirm that a session exists.
#[tokio::test]
async fn a_backend_that_is_full_does_not_end_sessions() {
    let cluster = Cluster::start(2).await;
    let [ended, kept] =
        [open(cluster.at(0), "2025-11-25", json!({})).await, open(cluster.at(0), "2025-11-25", json!({})).await];
    for session in [&ended, &kept] {
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    }
    cluster.set_backend(1, Health::Full);
    tokio::time::sleep(LEASE + LEASE / 2).await;
    assert_eq!(cluster.at(0).send(&ended.delete()).await.status, 204);
    for (session, status) in [(&ended, 404), (&kept, 200)] {
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, status);
    }
}

/// Messages of sessions that must be read again do not all wait for a backend that has just failed.
#[tokio::test]
async fn few_messages_ask_a_backend_that_fails() {
    // The lease is not renewed during the test.
    let configure = |server: mcp_runtime::Server| server.lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(1, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    cluster.set_backend(0, Health::Failing);
    let change = session.post(&request(1, "logging/setLevel", &json!({"level": "error"})));
    assert_eq!(cluster.at(0).send(&change).await.status, 503);
    let before = cluster.operations(0);
    for _ in 0..200 {
        assert_eq!(cluster.at(0).send(&session.ping()).await.status, 200);
    }
    let operations = cluster.operations(0) - before;
    assert!(operations < 100, "{operations} operations for 200 messages");
}
