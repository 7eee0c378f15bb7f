//! Rates that the layer `RateLimit` limits over all processes of a service.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Revision, Server, auth::Principal, backend::MemoryBackend, layers::RateLimit, testing::TestClient, tool,
};
use mcp_tests::backend::Health;
use tokio::time::{Instant, advance, sleep};

use super::{Replica, replicas};
use crate::layers::log::Log;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Roll a die.
#[tool]
fn roll() -> u8 {
    4
}

/// Toss a coin.
#[tool]
async fn toss() -> bool {
    true
}

fn server() -> Server {
    Server::empty("dice", "1.0.0").with::<roll>().with::<toss>()
}

fn limited<const N: usize>(limit: impl Fn() -> RateLimit) -> [Replica; N] {
    replicas(|| server().layer(limit()))
}

fn client(replica: &Replica) -> TestClient {
    replica.server.test_client(Revision::V2026_07_28)
}

/// Returns whether a call is within the rate.
async fn passes(client: &mut TestClient, tool: &str) -> bool {
    let result = client.call(tool, ()).await.unwrap();
    assert_eq!(result.is_error(), result.text().contains("rate limit"), "{}", result.text());
    !result.is_error()
}

/// Returns how many of some calls are within the rate.
async fn passing(client: &mut TestClient, calls: usize) -> usize {
    let mut passing = 0;
    for _ in 0..calls {
        passing += usize::from(passes(client, "roll").await);
    }
    passing
}

/// Waits until the servers have read what they share.
async fn settle() {
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_budget() {
    let limit = |calls| RateLimit::new(calls, HOUR);
    // How many calls of two users, each of whom calls both tools 50 times at every process, pass.
    for (configure, expected) in [
        (Box::new(move || limit(40)) as Box<dyn Fn() -> RateLimit>, 40),
        (Box::new(move || limit(400)), 400),
        (Box::new(move || limit(400).burst(10)), 10),
        (Box::new(move || limit(1)), 1),
        (Box::new(move || limit(40).per_function()), 80),
        (Box::new(move || limit(40).per_caller()), 80),
        (Box::new(move || limit(40).per_caller().per_function()), 160),
        (Box::new(move || limit(40).per_key(|call| call.name().to_owned())), 80),
        (Box::new(move || limit(40).per_process()), 120),
    ] {
        let replicas = limited::<3>(&configure);
        let users = ["ada", "bob"]
            .map(|name| replicas.each_ref().map(|replica| client(replica).with_extension(Principal::new(name))));
        let mut clients: Vec<_> = users.into_iter().flatten().collect();
        let mut total = 0;
        for _ in 0..50 {
            for client in &mut clients {
                for tool in ["roll", "toss"] {
                    total += usize::from(passes(client, tool).await);
                }
            }
        }
        assert_eq!(total, expected, "{:?}", configure());
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_replenished_for_all_processes_together() {
    let replicas = limited::<2>(|| RateLimit::new(4, Duration::from_secs(2)));
    let [mut ada, mut bob] = replicas.each_ref().map(client);
    assert_eq!(passing(&mut ada, 3).await + passing(&mut bob, 3).await, 4);
    for client in [&mut ada, &mut bob] {
        let refused = client.call("roll", ()).await.unwrap();
        assert_eq!(refused.text(), "rate limit of all calls of this server exceeded: retry in 500ms");
    }
    advance(Duration::from_millis(499)).await;
    assert_eq!(passing(&mut ada, 1).await + passing(&mut bob, 1).await, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(passing(&mut ada, 1).await + passing(&mut bob, 1).await, 1);
    advance(Duration::from_secs(2)).await;
    assert_eq!(passing(&mut bob, 3).await + passing(&mut ada, 3).await, 4);
}

/// Returns a server with two layers of the same settings.
fn with_two_layers() -> Server {
    let limit = || RateLimit::new(5, HOUR);
    server().layer_for(|entry| entry.name == "roll", limit()).layer_for(|entry| entry.name == "toss", limit())
}

/// The budgets of other layers and of other servers are full.
#[tokio::test(start_paused = true)]
async fn layers_and_servers_do_not_share_a_budget() {
    for (other, shares) in [
        (with_two_layers as fn() -> Server, true),
        (|| Server::empty("coins", "1.0.0").with::<roll>().layer(RateLimit::new(5, HOUR)), false),
        (|| server().layer(RateLimit::new(6, HOUR)), false),
        (|| server().layer(RateLimit::new(5, MINUTE)), false),
        (|| server().layer(RateLimit::new(5, HOUR).per_caller()), false),
        (|| server().layer(RateLimit::new(5, HOUR).burst(4)), false),
        (|| server().layer(RateLimit::new(5, HOUR).per_key(|_| String::new())), false),
        (|| server().layer(mcp_runtime::layers::LogCalls::new()).layer(RateLimit::new(5, HOUR)), false),
    ] {
        let backend = Arc::new(MemoryBackend::default());
        let start =
            |server: Server| server.backend(Arc::clone(&backend)).build().unwrap().test_client(Revision::V2026_07_28);
        let mut first = start(with_two_layers());
        assert_eq!(passing(&mut first, 9).await, 5);
        assert!(passes(&mut first, "toss").await, "another layer");
        let mut second = start(other());
        assert_eq!(passes(&mut second, "roll").await, !shares);
    }
}

#[tokio::test(start_paused = true)]
async fn layers_of_mounted_servers_share_no_budget() {
    let limited = |server: Server, name: &'static str| {
        server.layer_for(move |entry| entry.name.ends_with(name), RateLimit::new(5, HOUR))
    };
    let inner = limited(Server::empty("coins", "1.0.0").with::<toss>(), "toss");
    let outer = limited(Server::empty("dice", "1.0.0").with::<roll>(), "roll").mount("coins", inner);
    let mut client = outer.backend(MemoryBackend::default()).test_client(Revision::V2026_07_28);
    assert_eq!(passing(&mut client, 9).await, 5);
    assert!(passes(&mut client, "coins_toss").await);
}

/// The state of the budget outlives the process.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_refill_the_budget() {
    let backend = Arc::new(MemoryBackend::default());
    for (pause, expected) in [(0, 60), (0, 0), (30, 30), (60, 60)] {
        advance(Duration::from_secs(pause)).await;
        let server = server().layer(RateLimit::new(60, MINUTE)).backend(Arc::clone(&backend));
        let mut client = server.test_client(Revision::V2026_07_28);
        assert_eq!(passing(&mut client, 100).await, expected, "after {pause} s");
    }
}

#[tokio::test(start_paused = true)]
async fn few_calls_cause_operations_of_the_backend_and_rejected_ones_none() {
    let replicas = limited::<2>(|| RateLimit::new(3200, HOUR));
    let [mut ada, mut bob] = replicas.each_ref().map(client);
    settle().await;
    let operations = || replicas.iter().map(|replica| replica.backend.operations()).sum::<usize>();
    let before = operations();
    assert_eq!(passing(&mut ada, 1000).await, 1000);
    let used = operations() - before;
    // The time, and one for each hundredth of the budget.
    assert!((2..=1 + 1000 / 100).contains(&used), "{used} operations");
    assert_eq!(passing(&mut ada, 4000).await, 2200);
    assert_eq!(passing(&mut bob, 10).await, 0);
    let before = operations();
    assert_eq!(passing(&mut ada, 2000).await + passing(&mut bob, 2000).await, 0);
    assert_eq!(operations(), before);
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_cause_one_request() {
    let [replica] = limited(|| RateLimit::new(64, HOUR));
    let mut client = client(&replica);
    assert!(passes(&mut client, "roll").await);
    advance(HOUR).await;
    settle().await;
    replica.backend.set_health(Health::Slow(Duration::from_millis(10)));
    let before = replica.backend.operations();
    let calls: Vec<_> =
        (0..100).map(|_| client.send_request("tools/call", serde_json::json!({"name": "roll"}))).collect();
    let mut passing = 0;
    for id in calls {
        passing += usize::from(client.response(id).await.unwrap()["isError"] != true);
    }
    assert_eq!(passing, 64);
    let used = replica.backend.operations() - before;
    assert!((1..=6).contains(&used), "{used} operations");
}

/// While the backend is gone, a process neither rejects calls within the rate nor allows more than the rate. Only its
/// failure and its return are logged.
#[tokio::test(start_paused = true)]
async fn without_the_backend_each_process_limits_the_rate_alone() {
    for health in [Health::Failing, Health::Hanging] {
        let (log, _guard) = Log::listen();
        let replicas = limited::<2>(|| RateLimit::new(60, MINUTE).burst(20));
        let [mut ada, mut bob] = replicas.each_ref().map(client);
        settle().await;
        assert_eq!(passing(&mut ada, 6).await, 6);
        replicas[0].backend.set_health(health);
        let start = Instant::now();
        assert_eq!(passing(&mut ada, 1).await, 1, "{health:?}");
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(3), "{health:?}: the call waits for {waited:?}");
        assert_eq!(passing(&mut ada, 50).await, 13 + waited.as_secs() as usize, "{health:?}");
        assert_eq!(start.elapsed(), waited, "{health:?}: only the first call waits");
        // Others have the rest of the budget.
        assert_eq!(passing(&mut bob, 50).await, 14 + waited.as_secs() as usize, "{health:?}");
        advance(Duration::from_secs(20)).await;
        assert_eq!(passing(&mut ada, 50).await, 20, "{health:?}");
        sleep(Duration::from_secs(10)).await;
        replicas[0].backend.set_health(Health::Up);
        advance(MINUTE).await;
        // This call asks the backend again, without waiting for it.
        assert_eq!(passing(&mut ada, 1).await, 1, "{health:?}");
        settle().await;
        assert_eq!(passing(&mut bob, 50).await + passing(&mut ada, 50).await, 20, "{health:?}");
        let logged = log.take("rates are limited for ");
        assert!(logged.len() == 2 && logged[1].contains("for all processes together again"), "{health:?}: {logged:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_per_process_asks_nothing_of_the_backend() {
    let [replica] = limited(|| RateLimit::new(5, HOUR).per_process());
    let mut client = client(&replica);
    settle().await;
    let before = replica.backend.operations();
    assert_eq!(passing(&mut client, 10).await, 5);
    assert_eq!(replica.backend.operations(), before);
}
