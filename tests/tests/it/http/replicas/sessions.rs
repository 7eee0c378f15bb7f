//! The messages of a session, each received by every replica.

use std::time::Duration;

use mcp_runtime::{HttpOptions, RecordCondition, Records};
use mcp_tests::backend::Health;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Cluster, LEASE};
use crate::{
    http::{
        client::{Endpoint, Response, Session, soon},
        request::{Request, initialize},
    },
    sessions::asking_later,
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Opens a session of a client with these capabilities, without `notifications/initialized`.
pub(super) async fn open<'a>(endpoint: &'a Endpoint, version: &'static str, capabilities: Value) -> Session<'a> {
    let opening = initialize(version).change(|message| message["params"]["capabilities"] = capabilities);
    let opened = endpoint.send(&opening).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    Session { endpoint, version, id: opened.header("mcp-session-id").unwrap().to_owned() }
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Reads messages until one has this method.
pub(super) async fn until_method(response: &mut Response, method: &str) -> Value {
    loop {
        let message = response.message().await.expect("the stream ended");
        if message["method"] == method {
            return message;
        }
    }
}

/// Sends a request until a replica has heard of what another one has changed.
pub(super) async fn until_status(endpoint: &Endpoint, request: &Request, status: u16) {
    soon(async {
        while endpoint.send(request).await.status != status {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn every_replica_takes_every_message_of_a_session() {
    let cluster = Cluster::start(2).await;
    for version in VERSIONS {
        for opener in 0..2 {
            let capabilities = json!({
                "elicitation": {"form": {}, "url": {}}, "experimental": {}, "roots": {"listChanged": true},
                "sampling": {"tools": {}},
            });
            let session = open(cluster.at(opener), version, capabilities).await;
            let initialized = notification("notifications/initialized", &json!({}));
            for replica in [1 - opener, opener] {
                for (message, status) in [
                    (request(1, "ping", &json!({})), 200),
                    (initialized.clone(), 202),
                    (request(2, "tools/call", &json!({"name": "quick"})), 200),
                    (request(3, "tools/list", &json!({})), 200),
                    (notification("notifications/cancelled", &json!({"requestId": 99})), 202),
                    (notification("notifications/progress", &json!({"progressToken": 99, "progress": 1})), 202),
                    (notification("notifications/roots/list_changed", &json!({})), 202),
                    (json!({"jsonrpc": "2.0", "id": 99, "result": {}}), 202),
                    (json!({"jsonrpc": "2.0", "id": (5_u64 << 32) + 1, "result": {}}), 202),
                ] {
                    let answered = cluster.at(replica).send(&session.post(&message)).await;
                    assert_eq!(answered.status, status, "{version} {opener} {replica} {message}");
                    if status == 200 {
                        assert!(answered.json()["result"].is_object(), "{version} {opener} {replica} {message}");
                    }
                }
                let unknown = cluster.at(replica).send(&session.ping().with("mcp-session-id", &"x".repeat(32))).await;
                assert_eq!(unknown.status, 404);
            }
            let size = cluster.session_size(&session.id).await;
            assert!((1..=1024).contains(&size), "{size}");
        }
    }
}

/// The answer, and progress before it, reach the call wherever it runs.
#[tokio::test]
async fn answers_reach_the_replica_that_asked() {
    let cluster = Cluster::start(3).await;
    for version in ["2025-06-18", "2025-11-25"] {
        for answering in 0..3 {
            let session = open(cluster.at(0), version, json!({"elicitation": {}})).await;
            session.initialized().await;
            let mut call = cluster.at(1).open(&session.call(1, "asks")).await;
            let question = until_method(&mut call, "elicitation/create").await;
            let id = &question["id"];
            assert!(id.as_u64().is_some_and(|id| id < 1 << 53), "{question}");
            let progress = notification("notifications/progress", &json!({"progressToken": id, "progress": 1}));
            assert_eq!(cluster.at(answering).send(&session.post(&progress)).await.status, 202);
            let content = json!({"action": "accept", "content": {"sure": true}});
            let answer = session.post(&json!({"jsonrpc": "2.0", "id": id, "result": content}));
            // A second answer has no effect.
            for _ in 0..2 {
                assert_eq!(cluster.at(answering).send(&answer).await.status, 202);
            }
            let messages = call.messages().await;
            assert_eq!(messages.len(), 1, "{version} {answering} {messages:?}");
            assert_eq!(messages[0]["result"]["content"][0]["text"], "sure", "{version} {answering}");
        }
    }
}

/// The answer of one session never reaches the question of another.
#[tokio::test]
async fn answers_reach_questions_of_their_own_session_only() {
    let cluster = Cluster::start(2).await;
    let version = "2025-11-25";
    let victim = open(cluster.at(0), version, json!({"elicitation": {}})).await;
    victim.initialized().await;
    let other = open(cluster.at(1), version, json!({"elicitation": {}})).await;
    other.initialized().await;
    let mut call = cluster.at(0).open(&victim.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await;
    let decline = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let accept = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept});
    for replica in 0..2 {
        assert_eq!(cluster.at(replica).send(&other.post(&decline)).await.status, 202);
    }
    assert_eq!(cluster.at(1).send(&victim.post(&accept)).await.status, 202);
    assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
}

#[tokio::test]
async fn a_call_waits_for_initialized_on_any_replica() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    let calls = [session.call(1, "asks"), session.call(2, "asks")];
    let (first, second) = (cluster.at(0).open(&calls[0]), cluster.at(1).open(&calls[1]));
    let initialized = async {
        cluster.gate(0).has_begun(1).await;
        cluster.gate(1).has_begun(1).await;
        let initialized = session.post(&notification("notifications/initialized", &json!({})));
        assert_eq!(cluster.at(1).send(&initialized).await.status, 202);
    };
    let (mut first, mut second, ()) = tokio::join!(first, second, initialized);
    for call in [&mut first, &mut second] {
        until_method(call, "elicitation/create").await;
    }
}

#[tokio::test]
async fn a_call_is_cancelled_by_any_replica() {
    let cluster = Cluster::start(2).await;
    for (round, (running, cancelling)) in [(0, 1), (1, 0), (0, 0)].into_iter().enumerate() {
        let session = open(cluster.at(0), "2025-11-25", json!({})).await;
        let id = round as u64;
        let call = session.call(id, "waits");
        let cancel = async {
            soon(async {
                while !has_begun(&cluster, running, round) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            assert_eq!(cluster.at(cancelling).send(&session.cancel(id)).await.status, 202);
        };
        let (answered, ()) = tokio::join!(cluster.at(running).send(&call), cancel);
        assert_eq!(answered.body, b"", "a cancelled request has no response");
    }
}

#[tokio::test]
async fn cancellations_that_cannot_name_a_request_reach_no_other_replica() {
    let cluster = Cluster::start(1).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    for (id, is_announced) in
        [(json!("x".repeat(1023)), false), (json!(null), false), (json!([1]), false), (json!("x"), true)]
    {
        let before = cluster.operations(0);
        let cancelled = notification("notifications/cancelled", &json!({"requestId": id}));
        for _ in 0..20 {
            assert_eq!(cluster.at(0).send(&session.post(&cancelled)).await.status, 202);
        }
        // The replica renews its lease in the meantime.
        assert_eq!(cluster.operations(0) >= before + 20, is_announced, "{id}");
    }
}

/// Returns whether the call of a round of [`a_call_is_cancelled_by_any_replica`] has begun.
fn has_begun(cluster: &Cluster, replica: usize, round: usize) -> bool {
    let earlier = if replica == 0 && round == 2 { 1 } else { 0 };
    cluster.gate(replica).begun.load(std::sync::atomic::Ordering::SeqCst) > earlier
}

#[tokio::test]
async fn a_session_that_was_deleted_ends_everywhere() {
    let cluster = Cluster::start(3).await;
    for deleting in 0..3 {
        let session = open(cluster.at(0), "2025-11-25", json!({})).await;
        for replica in 0..3 {
            assert_eq!(cluster.at(replica).send(&session.ping()).await.status, 200);
        }
        let begun = cluster.gate(1).begun.load(std::sync::atomic::Ordering::SeqCst);
        let delete = async {
            cluster.gate(1).has_begun(begun + 1).await;
            assert_eq!(cluster.at(deleting).send(&session.delete()).await.status, 204);
        };
        let call = session.call(1, "waits");
        let (failed, ()) = tokio::join!(cluster.at(1).send(&call), delete);
        let message = failed.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("the session has ended"), "{deleting} {failed:?}");
        for replica in 0..3 {
            until_status(cluster.at(replica), &session.ping(), 404).await;
        }
        assert_eq!(cluster.session_size(&session.id).await, 0);
    }
}

/// What is lost on the way is read again as soon as the replica learns that it has missed something.
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
        // The other replica does not know yet.
        assert_eq!(cluster.at(1).send(&ended.ping()).await.status, 200);
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
    // An attempt that fails may nevertheless delete the session, so that the next one does not find it.
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

/// A question whose answer went to a replica that died before it could forward it is still open.
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
    // Its lease has not expired yet, or has: either way, the answer has no effect.
    assert_eq!(cluster.at(2).send(&answer).await.status, 202);
    tokio::time::sleep(LEASE).await;
    assert_eq!(cluster.at(2).send(&answer).await.status, 202);
    assert_eq!(cluster.at(2).send(&quick).await.json()["result"]["content"][0]["text"], "quick");
}

#[tokio::test]
async fn sessions_expire_when_no_replica_uses_them() {
    let idle = Duration::from_millis(400);
    let options = move || HttpOptions::default().session_idle(idle);
    let cluster = Cluster::start_with(2, options, |server| server).await;
    let (used, unused) =
        (open(cluster.at(0), "2025-11-25", json!({})).await, open(cluster.at(0), "2025-11-25", json!({})).await);
    for _ in 0..20 {
        // Only the other replica is used.
        assert_eq!(cluster.at(1).send(&used.ping()).await.status, 200);
        tokio::time::sleep(idle / 5).await;
    }
    for replica in 0..2 {
        assert_eq!(cluster.at(replica).send(&used.ping()).await.status, 200);
        assert_eq!(cluster.at(replica).send(&unused.ping()).await.status, 404);
    }
}

#[tokio::test]
async fn unused_sessions_of_a_peer_make_room_for_new_ones() {
    let idle = Duration::from_secs(2);
    let options = move || HttpOptions::default().max_sessions(4).max_peer_share(1.0).session_idle(idle);
    let cluster = Cluster::start_with(2, options, |server| server).await;
    let mut opened = Vec::new();
    for number in 0..4 {
        opened.push(open(cluster.at(number % 2), "2025-11-25", json!({})).await);
    }
    let running = cluster.at(1).open(&opened[0].get()).await;
    // A session that was not renewed twice is not in use.
    tokio::time::sleep(idle / 2).await;
    let newest = open(cluster.at(0), "2025-11-25", json!({})).await;
    let mut alive = 0;
    for session in &opened {
        alive += usize::from(cluster.at(0).send(&session.ping()).await.status == 200);
    }
    assert_eq!(alive, 3, "one session was evicted");
    for session in [&opened[0], &newest] {
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200, "sessions in use are not evicted");
    }
    drop(running);
}

#[tokio::test]
async fn the_sessions_of_a_peer_are_counted_over_all_replicas() {
    let options = || HttpOptions::default().max_sessions(4).max_peer_share(1.0);
    let cluster = Cluster::start_with(2, options, |server| server).await;
    let mut opened = Vec::new();
    for number in 0..4 {
        opened.push(open(cluster.at(number % 2), "2025-11-25", json!({})).await);
    }
    for replica in 0..2 {
        let refused = cluster.at(replica).send(&initialize("2025-11-25")).await;
        assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
        assert_eq!(refused.json()["id"], 0);
    }
    assert_eq!(cluster.at(1).send(&opened[0].delete()).await.status, 204);
    assert_eq!(cluster.at(0).send(&initialize("2025-11-25")).await.status, 200);
}

/// A replica that the others consider gone fails its calls, and goes on with a new lease.
#[tokio::test]
async fn a_replica_that_has_lost_its_lease_fails_its_calls() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let mut call = cluster.at(0).open(&session.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await["id"].as_u64().unwrap();
    cluster.expire_lease(question).await;
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

/// A client that makes up answers occupies neither the replica that has asked nor the backend.
#[tokio::test]
async fn answers_that_nobody_waits_for_are_bounded() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-03-26", json!({"roots": {}, "sampling": {}, "elicitation": {}})).await;
    session.initialized().await;
    let other = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    other.initialized().await;
    let mut call = cluster.at(0).open(&other.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await["id"].as_u64().unwrap();
    let answer = |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": {}});
    let mut refused = 0;
    for number in 0..200 {
        let answered = cluster.at(1).send(&session.post(&answer(question + 1000 + number))).await;
        assert!(matches!(answered.status, 202 | 503), "{answered:?}");
        assert_eq!(answered.header("retry-after").is_some(), answered.status == 503);
        refused += usize::from(answered.status == 503);
    }
    assert!(refused > 0, "all answers were accepted");
    let stored = cluster.backend().count(&format!("mcp/1/answers/{}", session.id)).await.unwrap();
    assert_eq!(stored + refused, 200, "the replica that has asked ignores them");
    // Other sessions are not affected.
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let accept = json!({"jsonrpc": "2.0", "id": question, "result": accept});
    assert_eq!(cluster.at(1).send(&other.post(&accept)).await.status, 202);
    assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
}

#[tokio::test]
async fn an_answer_that_is_too_long_for_another_replica_fails_its_question() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let mut call = cluster.at(0).open(&session.call(1, "asks")).await;
    let id = until_method(&mut call, "elicitation/create").await["id"].clone();
    let content = json!({"sure": true, "padding": "x".repeat(1 << 20)});
    let result = json!({"action": "accept", "content": content});
    let answer = session.post(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    assert_eq!(cluster.at(1).send(&answer).await.status, 202);
    let message = &call.messages().await[0];
    assert!(message.to_string().contains("too long for another replica"), "{message}");
}

/// The answer to a question of a lease that is gone would reach nobody.
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

/// Each operation takes less than two seconds, and all together take more.
#[tokio::test]
async fn a_message_waits_for_a_slow_backend_for_two_seconds_in_all() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-03-26", json!({})).await;
    let cancelled = || notification("notifications/cancelled", &json!({"requestId": 99}));
    let (few, many) = ([cancelled()], vec![cancelled(); 50]);
    cluster.set_backend(0, Health::Slow(LEASE / 5));
    for (batch, status) in [(&few[..], 202), (&many[..], 503)] {
        assert_eq!(cluster.at(0).send(&session.post(&json!(batch))).await.status, status);
    }
}

/// The client must not repeat what has run.
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

/// During a rolling update, a newer release may write records that this one does not know.
#[tokio::test]
async fn records_of_a_newer_release_are_kept() {
    let idle = Duration::from_secs(2);
    let cluster = Cluster::start_with(2, move || HttpOptions::default().session_idle(idle), |server| server).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let key = format!("mcp/1/session/{}", session.id);
    let record = cluster.backend().get(&key).await.unwrap().unwrap();
    let mut newer: Value = serde_json::from_slice(&record.value).unwrap();
    newer["future"] = json!({"kept": [1]});
    let always = RecordCondition::Always;
    let written = Records::set(cluster.backend(), &key, always, newer.to_string().into_bytes(), idle).await.unwrap();
    // Both a renewal and a change rewrite the record.
    let level = session.post(&request(1, "logging/setLevel", &json!({"level": "error"})));
    assert_eq!(cluster.at(1).send(&level).await.status, 200);
    let record = soon(async {
        loop {
            assert_eq!(cluster.at(0).send(&session.ping()).await.status, 200);
            let record = cluster.backend().get(&key).await.unwrap().unwrap();
            if Some(record.version) != written {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let kept: Value = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(kept["future"], newer["future"], "{kept}");

    let unreadable = open(cluster.at(0), "2025-11-25", json!({})).await;
    let key = format!("mcp/1/session/{}", unreadable.id);
    Records::set(cluster.backend(), &key, always, b"{}".to_vec(), idle).await.unwrap();
    let refused = cluster.at(1).send(&unreadable.ping()).await;
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
}
