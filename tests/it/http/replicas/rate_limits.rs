//! Rate limits over all replicas together.

use std::time::Duration;

use mcp_runtime::{HttpOptions, layers::RateLimit};
use mcp_tests::backend::Health;

use super::Cluster;
use crate::http::request::call;

/// Returns how many of some concurrent calls at a replica are within the rate.
async fn passing(cluster: &Cluster, replica: usize, calls: usize) -> usize {
    let mut connections = Vec::new();
    for _ in 0..calls {
        connections.push(cluster.at(replica).connect().await);
    }
    let mut responses = Vec::new();
    for connection in connections {
        responses.push(connection.open(&call("quick")).await);
    }
    let mut passing = 0;
    for response in responses {
        let (response, _) = response.full().await;
        assert_eq!(response.status, 200);
        passing += usize::from(response.text() == "quick");
    }
    passing
}

#[tokio::test]
async fn the_rate_of_a_caller_holds_at_all_replicas_together() {
    let limit = || RateLimit::new(100, Duration::from_secs(3600 * 24)).per_caller();
    let cluster = Cluster::start_with(3, HttpOptions::default, |server| server.layer(limit())).await;
    let all = tokio::join!(passing(&cluster, 0, 50), passing(&cluster, 1, 50), passing(&cluster, 2, 50));
    let mut total = all.0 + all.1 + all.2;
    for replica in 0..3 {
        total += passing(&cluster, replica, 10).await;
    }
    assert_eq!(total, 100);
    // Without the backend, a replica neither fails calls nor stops counting.
    cluster.set_backend(0, Health::Failing);
    assert_eq!(passing(&cluster, 0, 10).await, 0, "the replica remembers that the budget is exhausted");
}
