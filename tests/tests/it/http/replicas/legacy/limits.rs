//! Clients that send too much, and those that must not notice.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use mcp_runtime::{RecordCondition, Records as _};
use mcp_tests::backend::Health;
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, task::JoinSet};

use super::{accepted, authenticated, call_with, cluster, configure, options, post};
use crate::http::{
    authorization::with_token,
    client::{Connection, soon},
    legacy::{call, next, session, sse},
    replicas::Cluster,
    request::initialize,
};

/// A client without a session can occupy neither the other replica nor the messages of others.
#[tokio::test]
async fn messages_of_a_peer_that_are_being_forwarded_are_limited() {
    const LIMIT: usize = 32;
    let cluster = authenticated().await;
    let mut stream = cluster.at(0).open(&with_token(sse(), "ada/read")).await;
    let path = stream.event().await.unwrap().data;
    accepted(&cluster, 1, &with_token(initialize("2024-11-05").path(&path), "ada/read")).await;
    assert_eq!(next(&mut stream).await["id"], 0);
    let slot = path.split(['=', '.']).nth(1).unwrap();
    let unknown = call(1, "user").path(&format!("/message?sessionId={slot}.{}", "x".repeat(32)));
    let unknown = with_token(unknown, "eve/read");
    // No reply arrives.
    cluster.set_backend(1, Health::Deaf);
    let mut flood = JoinSet::new();
    for _ in 0..=LIMIT {
        let (address, unknown) = (cluster.at(1).address, unknown.clone());
        flood.spawn(async move { Connection::to(address).await.open(&unknown).await.full().await.0 });
    }
    let refused = flood.join_next().await.unwrap().unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    let of_ada = with_token(call(1, "user").path(&path), "ada/read");
    let repaired = async {
        // The message of another peer has been forwarded.
        next(&mut stream).await;
        cluster.set_backend(1, Health::Up);
    };
    let (response, ()) = tokio::join!(cluster.at(1).send(&of_ada), repaired);
    assert_eq!(response.status, 202, "{response:?}");
    let statuses: Vec<_> = flood.join_all().await.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [404; LIMIT]);
}

/// A message waits as long as its replica is alive while an earlier one of its session is being received. Others do not.
#[tokio::test]
async fn a_blocked_session_does_not_delay_others() {
    let cluster = Cluster::start_on(2, 2, options, configure).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let (mut other, other_path) = session(cluster.at(0), "2024-11-05").await;
    let (blocking, waiting) = (call(1, "blocks").path(&path), call(2, "quick").path(&path));
    let posted = async { tokio::join!(cluster.at(1).send(&blocking), cluster.at(1).send(&waiting)) };
    let released = async {
        cluster.gate(0).has_begun(1).await;
        // The sender gives a message up if it hears nothing of it for two seconds, so this goes on for longer.
        let began_at = Instant::now();
        for id in 3.. {
            accepted(&cluster, 1, &call(id, "quick").path(&other_path)).await;
            assert_eq!(next(&mut other).await["id"], id);
            tokio::time::sleep(Duration::from_millis(10)).await;
            if began_at.elapsed() > Duration::from_millis(2500) {
                break;
            }
        }
        cluster.gate(0).is_released.store(true, Ordering::SeqCst);
    };
    let ((blocked, waited), ()) = tokio::join!(posted, released);
    assert_eq!((blocked.status, waited.status), (202, 202));
    let mut ids = [next(&mut stream).await, next(&mut stream).await].map(|response| response["id"].as_u64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
}

/// A slow reader loses no response. Messages of a client that does not read are rejected eventually.
#[tokio::test]
async fn unread_output_is_limited() {
    let cluster = cluster(3).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let long = |id: u64| post(&path, &call_with(id, "long", &json!({"length": 100_000})));
    let mut count = 0;
    let refused = loop {
        let response = cluster.at(1 + usize::from(count % 2 == 0)).send(&long(count)).await;
        if response.status != 202 {
            break response;
        }
        count += 1;
        assert!(count < 1000, "no request is rejected");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for id in 0..count {
        assert_eq!(next(&mut stream).await["id"], id);
    }
    accepted(&cluster, 1, &long(count)).await;
}

/// The limits are those of the replica with the stream, and concern the sender of the message.
#[tokio::test]
async fn calls_in_flight_are_limited() {
    let cluster = Cluster::start_with(2, || options().max_in_flight(2), configure).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for id in 1..=2 {
        accepted(&cluster, 1, &call(id, "waits").path(&path)).await;
    }
    cluster.gate(0).has_begun(2).await;
    for replica in [0, 1] {
        let refused = cluster.at(replica).send(&call(3, "quick").path(&path)).await;
        assert_eq!((refused.status, refused.header("retry-after"), &refused.json()["id"]), (503, Some("1"), &json!(3)));
    }
    cluster.gate(0).open();
    next(&mut stream).await;
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 3);
}

/// Heads of forwarded messages wait in a queue that all clients share.
#[tokio::test]
async fn the_head_of_a_forwarded_message_is_limited() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for (length, forwarded) in [(7_000, 202), (9_000, 431)] {
        let request = call(1, "quick").path(&path).with("x-note", &"x".repeat(length));
        for (replica, status) in [(0, 202), (1, forwarded)] {
            let response = cluster.at(replica).send(&request).await;
            assert_eq!(response.status, status, "{length} at {replica}");
            if status == 202 {
                assert_eq!(next(&mut stream).await["id"], 1);
            }
        }
    }
}

/// A long body is stored only until the other replica has received it, even if the client no longer waits for that.
#[tokio::test]
async fn a_stored_body_is_deleted_if_its_client_hangs_up() {
    let cluster = Cluster::start_on(2, 2, options, configure).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let group = format!("mcp/1/posted/{}", path.split('=').nth(1).unwrap());
    let mut blocking = cluster.at(0).connect().await;
    blocking.write(&call(1, "blocks").path(&path).bytes()).await;
    cluster.gate(0).has_begun(1).await;
    let mut leaving = cluster.at(1).connect().await;
    leaving.write(&post(&path, &call_with(2, "measure", &json!({"text": "x".repeat(5_000)}))).bytes()).await;
    let (name, stored) = soon(async {
        loop {
            match cluster.backend().list(&group, None, 1).await.unwrap().pop() {
                Some(found) => break found,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    })
    .await;
    // The record does not expire during the test.
    let (key, hour) = (format!("{group}:{name}"), Duration::from_secs(3600));
    assert!(cluster.backend().set(&key, RecordCondition::Always, stored.value.to_vec(), hour).await.unwrap().is_some());
    leaving.0.get_mut().shutdown().await.unwrap();
    leaving.closed().await;
    cluster.gate(0).is_released.store(true, Ordering::SeqCst);
    for id in [1, 2] {
        assert_eq!(next(&mut stream).await["id"], id);
    }
    soon(async {
        while cluster.backend().get(&key).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
