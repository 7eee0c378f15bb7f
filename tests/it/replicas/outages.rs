//! Log messages about a backend that fails.

use std::time::Duration;

use mcp_runtime::{HttpOptions, Server};
use mcp_tests::backend::Health;
use tokio::time::sleep;

use super::{Replica, replicas};
use crate::layers::log::Log;

/// A lease is renewed after a third of this time.
const LEASE: Duration = Duration::from_secs(600);
const PROBES: u32 = 200;

/// A problem is logged when it begins and when it ends, and not whenever an attempt is repeated.
#[tokio::test(start_paused = true)]
async fn each_problem_is_logged_once() {
    let [Replica { server, backend }] = replicas::<1>(|| Server::empty("log", "1.0.0").lease(LEASE));
    let handle = server.handle();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    backend.subscribed(2).await;
    assert!(service.is_ready().await);
    for (health, expected) in [
        (
            Health::Failing,
            &[
                ("not ready", 1),
                ("cannot renew the lease of this replica: retrying", 1),
                ("changes cannot be announced to other processes: retrying", 1),
                ("the keys for request states cannot be read: retrying", 1),
                // To the messages to all replicas, and to those to this replica.
                ("cannot subscribe to the messages of other replicas: retrying", 2),
            ][..],
        ),
        (
            Health::Full,
            &[
                ("not ready: the backend accepts no changes", 1),
                ("cannot renew the lease of this replica: retrying", 1),
            ],
        ),
    ] {
        let (log, _guard) = Log::listen();
        let check = |expected: &[(&str, usize)]| {
            let lines = log.take("");
            for (message, times) in expected {
                let found = lines.iter().filter(|line| line.starts_with(message)).count();
                assert_eq!(found, *times, "{health:?} {message}: {lines:?}");
            }
        };
        backend.set_health(health);
        if health == Health::Failing {
            backend.end_subscriptions();
            handle.resource_updated("test://item");
        }
        // For less than the time of a lease.
        for _ in 0..PROBES {
            service.is_ready().await;
            sleep(LEASE / (2 * PROBES)).await;
        }
        check(expected);
        backend.set_health(Health::Up);
        for _ in 0..PROBES {
            service.is_ready().await;
            sleep(LEASE / (2 * PROBES)).await;
        }
        check(&[
            ("ready again: the backend responds, and accepts changes", 1),
            ("the lease of this replica is renewed again", 1),
        ]);
    }
}
