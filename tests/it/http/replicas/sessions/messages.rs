//! Messages of a session that any replica receives, and their effect on the others.

use std::{sync::atomic::Ordering, time::Duration};

use mcp_runtime::{HttpOptions, backend::Records as _};
use mcp_tests::backend::Health;
use serde_json::json;

use super::{notification, open, request, until_method, until_status};
use crate::http::{
    client::soon,
    replicas::{Cluster, LEASE},
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

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

#[tokio::test]
async fn a_call_waits_for_initialized_that_any_replica_receives() {
    for receiver in 0..2 {
        let cluster = Cluster::start(2).await;
        let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
        let call = session.call(1, "asks");
        let initialized = async {
            cluster.gate(0).has_begun(1).await;
            let initialized = session.post(&notification("notifications/initialized", &json!({})));
            assert_eq!(cluster.at(receiver).send(&initialized).await.status, 202);
        };
        let (mut call, ()) = tokio::join!(cluster.at(0).open(&call), initialized);
        until_method(&mut call, "elicitation/create").await;
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

/// The replica that runs the call misses the announcement, and finds the cancellation when it hears messages again. A
/// third replica, which does not know the session, usually hears it before.
#[tokio::test]
async fn a_cancellation_outlives_a_cut_of_the_connection_to_the_backend() {
    let cluster = Cluster::start(3).await;
    open(cluster.at(2), "2025-11-25", json!({})).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let (cancelled, other) = (session.call(1, "waits"), session.call(2, "waits"));
    let cancel = async {
        cluster.gate(0).has_begun(2).await;
        cluster.set_backend(0, Health::Deaf);
        assert_eq!(cluster.at(1).send(&session.cancel(1)).await.status, 202);
        tokio::time::sleep(LEASE / 4).await;
        cluster.set_backend(0, Health::Up);
    };
    let call = async {
        let answered = cluster.at(0).send(&cancelled).await;
        assert_eq!(answered.body, b"", "a cancelled request has no response");
        cluster.gate(0).open();
    };
    let ((), other, ()) = tokio::join!(call, cluster.at(0).send(&other), cancel);
    assert_eq!(other.text(), "waited");
    // It would cancel a later call with the same id.
    until_forgotten(&cluster, &session.id).await;
}

/// Waits until the backend has no cancellation of a session. Their records expire after a minute.
async fn until_forgotten(cluster: &Cluster, session: &str) {
    let cancellations = format!("mcp/1/cancelled/{session}");
    let forgotten = async {
        while cluster.backend().count(&cancellations).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), forgotten).await.expect("the cancellation is forgotten");
}

/// A replica that hears messages again looks for cancellations, of which this one has taken effect.
#[tokio::test]
async fn a_cancellation_does_not_cancel_a_later_call_with_its_id() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let call = session.call(1, "waits");
    let cancel = async {
        cluster.gate(0).has_begun(1).await;
        assert_eq!(cluster.at(1).send(&session.cancel(1)).await.status, 202);
    };
    let (answered, ()) = tokio::join!(cluster.at(0).send(&call), cancel);
    assert_eq!(answered.body, b"", "a cancelled request has no response");
    until_forgotten(&cluster, &session.id).await;
    let reconnect = async {
        cluster.gate(0).has_begun(2).await;
        cluster.set_backend(0, Health::Deaf);
        assert_eq!(cluster.at(1).send(&session.cancel(99)).await.status, 202);
        cluster.set_backend(0, Health::Up);
        tokio::time::sleep(LEASE / 4).await;
        cluster.gate(0).open();
    };
    let (answered, ()) = tokio::join!(cluster.at(0).send(&call), reconnect);
    assert_eq!(answered.text(), "waited");
}

/// No replica runs these calls, and a client can invent any number of ids.
#[tokio::test]
async fn cancellations_of_unknown_calls_do_not_fill_the_backend() {
    let cluster = Cluster::start(1).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    for id in 0..100 {
        assert_eq!(cluster.at(0).send(&session.cancel(id)).await.status, 202, "{id}");
    }
    let stored = cluster.backend().count(&format!("mcp/1/cancelled/{}", session.id)).await.unwrap();
    assert!((1..100).contains(&stored), "{stored}");
}

/// Returns whether the call of a round of [`a_call_is_cancelled_by_any_replica`] has begun.
fn has_begun(cluster: &Cluster, replica: usize, round: usize) -> bool {
    let earlier = if replica == 0 && round == 2 { 1 } else { 0 };
    cluster.gate(replica).begun.load(Ordering::SeqCst) > earlier
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

#[tokio::test]
async fn a_session_that_was_deleted_ends_everywhere() {
    let cluster = Cluster::start(3).await;
    for deleting in 0..3 {
        let session = open(cluster.at(0), "2025-11-25", json!({})).await;
        for replica in 0..3 {
            assert_eq!(cluster.at(replica).send(&session.ping()).await.status, 200);
        }
        let begun = cluster.gate(1).begun.load(Ordering::SeqCst);
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

/// Each operation takes less than two seconds, but all of them together take longer.
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

/// A replica loads a session for several requests at once while another one changes it. Whatever the order, the copy that
/// it keeps has every change.
#[tokio::test]
async fn a_session_that_changes_while_it_is_loaded_is_read_again() {
    // Nothing but the announcements makes the replica read the session again.
    let configure = |server: mcp_runtime::Server| {
        server.lease(Duration::from_secs(600)).session_rates(mcp_runtime::SessionRates::default().log_messages(None))
    };
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = async || open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    for (late, pause) in [(20, 0), (20, 5), (20, 15), (20, 30), (40, 45), (20, 50), (20, 55), (20, 65), (200, 680)] {
        let session = session().await;
        cluster.set_backend(1, Health::Late(Duration::from_millis(late)));
        let (ping, second) = (session.ping(), session.ping());
        let loads = async {
            let later = async {
                tokio::time::sleep(Duration::from_millis(late / 2)).await;
                cluster.at(1).send(&second).await.status
            };
            tokio::join!(async { cluster.at(1).send(&ping).await.status }, later)
        };
        let changes = async {
            // Each announcement overlaps a load.
            for level in ["error", "info", "debug", "critical"] {
                let set = session.post(&request(1, "logging/setLevel", &json!({"level": level})));
                assert_eq!(cluster.at(0).send(&set).await.status, 200);
                tokio::time::sleep(Duration::from_millis(pause / 4)).await;
            }
            let initialized = session.post(&notification("notifications/initialized", &json!({})));
            assert_eq!(cluster.at(0).send(&initialized).await.status, 202);
        };
        assert_eq!(tokio::join!(loads, changes).0, (200, 200));
        cluster.set_backend(1, Health::Up);
        // A level that is too low lets the call log errors, so that its response is a stream.
        let call = session.call(2, "floods");
        soon(async { while cluster.at(1).open(&call).await.header("content-type") != Some("application/json") {} })
            .await;
    }
}

#[tokio::test]
async fn malformed_session_ids_do_not_reach_the_backend() {
    // The lease is not renewed during the test.
    let configure = |server: mcp_runtime::Server| server.lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(1, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let before = cluster.operations(0);
    for id in [&*"x".repeat(31), &"x".repeat(33), &"x".repeat(2000), &format!("{}:", "x".repeat(31)), "x"] {
        for _ in 0..20 {
            assert_eq!(cluster.at(0).send(&session.ping().with("mcp-session-id", id)).await.status, 404, "{id}");
        }
        assert!(cluster.operations(0) < before + 20, "{id}");
    }
}
