//! Changes of a session whose announcement fails after they have been stored.

use mcp_tests::backend::Health;
use serde_json::json;

use super::{
    Cluster,
    sessions::{open, until_method, until_status},
};

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
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    cluster.set_backend(0, Health::Mute);
    assert_eq!(cluster.at(0).send(&session.delete()).await.status, 503);
    cluster.set_backend(0, Health::Up);
    for replica in [1, 0] {
        until_status(cluster.at(replica), &session.ping(), 404).await;
    }
}
