//! The expiry, the number and the records of sessions that replicas share.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use mcp_runtime::{
    HttpOptions, Server,
    backend::{RecordCondition, Records},
};
use mcp_tests::backend::{Health, UnreliableBackend};
use serde_json::{Value, json};

use super::{open, request, until_status};
use crate::http::{client::soon, replicas::Cluster, request::initialize};

#[tokio::test]
async fn sessions_expire_when_no_replica_uses_them() {
    let idle = Duration::from_millis(400);
    let options = move || HttpOptions::default().session_idle(idle);
    let cluster = Cluster::start_with(2, options, |server| server).await;
    let (used, unused) =
        (open(cluster.at(0), "2025-11-25", json!({})).await, open(cluster.at(0), "2025-11-25", json!({})).await);
    // Its client only listens.
    let listening = open(cluster.at(0), "2025-11-25", json!({})).await;
    let _stream = cluster.at(0).open(&listening.get()).await;
    for _ in 0..20 {
        // Only the other replica is used.
        assert_eq!(cluster.at(1).send(&used.ping()).await.status, 200);
        tokio::time::sleep(idle / 5).await;
    }
    for replica in 0..2 {
        assert_eq!(cluster.at(replica).send(&used.ping()).await.status, 200);
        assert_eq!(cluster.at(replica).send(&unused.ping()).await.status, 404);
        assert_eq!(cluster.at(replica).send(&listening.ping()).await.status, 200);
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

/// Wherever its id is among the others, a new session finds one that can be evicted.
#[tokio::test]
async fn each_unused_session_of_a_peer_makes_room() {
    let idle = Duration::from_secs(2);
    let options = move || HttpOptions::default().max_sessions(16).max_peer_share(1.0).session_idle(idle);
    let cluster = Cluster::start_with(1, options, |server| server).await;
    for _ in 0..16 {
        open(cluster.at(0), "2025-11-25", json!({})).await;
    }
    tokio::time::sleep(idle / 2).await;
    for _ in 0..16 {
        open(cluster.at(0), "2025-11-25", json!({})).await;
    }
}

/// A replica that uses a session again, or begins to use it, renews it before the next regular renewals.
#[tokio::test]
async fn sessions_that_are_used_again_do_not_make_room() {
    let idle = Duration::from_secs(8);
    let options = move || HttpOptions::default().max_sessions(4).max_peer_share(1.0).session_idle(idle);
    let cluster = Cluster::start_with(2, options, |server| server).await;
    let mut opened = Vec::new();
    for _ in 0..4 {
        opened.push(open(cluster.at(0), "2025-11-25", json!({})).await);
    }
    // Sessions in use are renewed in each eighth of this time. Sessions that were not renewed in a quarter of it are evicted.
    tokio::time::sleep(idle * 2 / 5).await;
    for (replica, session) in opened[..2].iter().enumerate() {
        // The first renewal fails.
        for health in [Health::Full, Health::Up] {
            cluster.set_backend(replica, health);
            assert_eq!(cluster.at(replica).send(&session.ping()).await.status, 200);
            tokio::time::sleep(idle / 800).await;
        }
    }
    tokio::time::sleep(idle / 80).await;
    open(cluster.at(1), "2025-11-25", json!({})).await;
    let mut alive = Vec::new();
    for session in &opened {
        alive.push(cluster.at(0).send(&session.ping()).await.status == 200);
    }
    assert_eq!((&alive[..2], alive[2] != alive[3]), (&[true; 2][..], true));
}

/// Both replicas use a session all the time. One of them renews it, and the other one reads that.
#[tokio::test]
async fn a_session_is_renewed_by_one_replica_at_a_time() {
    let idle = Duration::from_secs(4);
    let options = move || HttpOptions::default().session_idle(idle);
    let cluster = Cluster::start_with(2, options, |server| server.lease(Duration::from_secs(600))).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let ping = async || {
        for replica in 0..2 {
            assert_eq!(cluster.at(replica).send(&session.ping()).await.status, 200);
        }
    };
    ping().await;
    let operations = || cluster.operations(0) + cluster.operations(1);
    let (before, begun) = (operations(), Instant::now());
    while begun.elapsed() < idle / 2 {
        ping().await;
        tokio::time::sleep(idle / 800).await;
    }
    let (renewals, intervals) = (operations() - before, begun.elapsed().as_millis() / (idle / 8).as_millis());
    // One replica writes two records. The other one fails to write, and reads.
    assert!((4..=5 * intervals as usize).contains(&renewals), "{renewals} operations in {intervals} intervals");
}

/// Clients never learn the ids of these sessions.
#[tokio::test]
async fn sessions_that_could_not_be_opened_leave_nothing() {
    for (case, unread, health) in [
        ("the response is not read in time", 1, Health::Up),
        ("the backend does not respond in time", 1 << 20, Health::Late(Duration::from_millis(2500))),
    ] {
        let limits = Mutex::new(vec![1 << 20, unread]);
        let options = || {
            let unread = limits.lock().unwrap().pop().expect("two replicas");
            HttpOptions::default().max_sessions(1).max_peer_share(1.0).max_unread_response_bytes(unread)
        };
        let long = |server: Server| server.instructions("x".repeat(20 << 10));
        let cluster = Cluster::start_with(2, options, long).await;
        cluster.set_backend(0, health);
        assert_eq!(cluster.at(0).send(&initialize("2025-11-25")).await.status, 503, "{case}");
        cluster.set_backend(0, Health::Up);
        until_status(cluster.at(1), &initialize("2025-11-25"), 200).await;
    }
}

#[tokio::test]
async fn the_sessions_of_a_peer_are_counted_over_all_replicas() {
    let options = || HttpOptions::default().max_sessions(4).max_peer_share(1.0);
    let shared = UnreliableBackend::default();
    // The clocks of the replicas do not decide which sessions are in use.
    shared.set_clock_back(Duration::from_secs(3600));
    let cluster = Cluster::start_sharing(&shared, 1, 2, options, |server| server).await;
    let mut opened = Vec::new();
    for number in 0..4 {
        opened.push(open(cluster.at(number % 2), "2025-11-25", json!({})).await);
    }
    let records = || {
        let backend = format!("{:?}", cluster.backend());
        let count = backend.split_once("MemoryRecords { records: ").and_then(|(_, rest)| rest.split_once(','));
        count.expect("the number of records").0.to_owned()
    };
    let before = records();
    for replica in 0..2 {
        let refused = cluster.at(replica).send(&initialize("2025-11-25")).await;
        assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
        assert_eq!(refused.json()["id"], 0);
        assert_eq!(records(), before, "a session that is refused leaves nothing");
    }
    assert_eq!(cluster.at(1).send(&opened[0].delete()).await.status, 204);
    assert_eq!(cluster.at(0).send(&initialize("2025-11-25")).await.status, 200);
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
