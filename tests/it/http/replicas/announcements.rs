//! Changes of a session whose announcement fails after they have been stored.

use std::time::Duration;

use mcp_runtime::{
    Context, HttpOptions, Server,
    backend::{RecordCondition, Records as _, Topics as _},
    tool,
};
use mcp_tests::backend::Health;
use serde_json::json;

use super::{
    Cluster,
    sessions::{open, request, until_method, until_status},
};
use crate::http::client::soon;

/// Send a log message.
#[tool]
fn logs(ctx: &Context) {
    ctx.info("logged");
}

/// Starts replicas that read a session again only because of an announcement.
async fn with_long_leases(replicas: usize) -> Cluster {
    let configure = |server: Server| server.with::<logs>().lease(Duration::from_secs(600));
    Cluster::start_with(replicas, HttpOptions::default, configure).await
}

/// Every replica learns of the change, whether or not the client repeats the refused request.
#[tokio::test]
async fn initialized_reaches_the_replica_that_waits_although_its_announcement_has_failed() {
    for is_repeated in [true, false] {
        let cluster = Cluster::start(2).await;
        let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
        let call = session.call(1, "asks");
        let initialized = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
        // The replica that has opened the session waits.
        let asks = async { until_method(&mut cluster.at(0).open(&call).await, "elicitation/create").await };
        let announced = async {
            cluster.set_backend(1, Health::Mute);
            let refused = cluster.at(1).send(&initialized).await;
            assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
            cluster.set_backend(1, Health::Up);
            if is_repeated {
                assert_eq!(cluster.at(1).send(&initialized).await.status, 202);
            }
        };
        let (question, ()) = tokio::join!(asks, announced);
        assert_eq!(question["method"], "elicitation/create", "{is_repeated}");
    }
}

#[tokio::test]
async fn the_end_of_a_session_reaches_the_other_replicas_although_its_announcement_has_failed() {
    let cluster = with_long_leases(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    cluster.set_backend(0, Health::Mute);
    assert_eq!(cluster.at(0).send(&session.delete()).await.status, 503);
    cluster.set_backend(0, Health::Up);
    for replica in [1, 0] {
        until_status(cluster.at(replica), &session.ping(), 404).await;
    }
}

#[tokio::test]
async fn a_change_reaches_the_other_replicas_although_its_announcement_has_failed() {
    let cluster = with_long_leases(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let call = session.call(1, "logs");
    assert_eq!(cluster.at(1).open(&call).await.header("content-type"), Some("text/event-stream"));
    cluster.set_backend(0, Health::Mute);
    let change = session.post(&request(2, "logging/setLevel", &json!({"level": "error"})));
    assert_eq!(cluster.at(0).send(&change).await.status, 503);
    cluster.set_backend(0, Health::Up);
    // The message of the call has a lower level.
    soon(async {
        while cluster.at(1).open(&call).await.header("content-type") != Some("application/json") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A replica whose announcements have failed too often does not know which of them are missing.
#[tokio::test]
async fn every_session_is_read_again_if_any_may_have_changed() {
    let cluster = with_long_leases(1).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let key = format!("mcp/1/session/{}", session.id);
    assert!(cluster.backend().delete(&key, RecordCondition::Always).await.unwrap());
    assert_eq!(cluster.at(0).send(&session.ping()).await.status, 200);
    let message = br#"session {"session":"","event":"all_changed"}"#.to_vec();
    cluster.backend().publish("mcp/1/replicas", message).await.unwrap();
    until_status(cluster.at(0), &session.ping(), 404).await;
}
