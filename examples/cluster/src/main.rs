//! A server with several replicas: any of them can take any request, and answers to questions, resumed streams and tasks
//! find the one that they concern.
//!
//! `cluster.py` starts Redis, three replicas and nginx:
//!
//! ```text
//! examples/cluster/cluster.py
//! ```
//!
//! A single replica, with a Redis server that is running already:
//!
//! ```text
//! cargo run -p cluster -- --http 127.0.0.1:8080 --backend redis://127.0.0.1
//! ```

use std::{sync::LazyLock, time::Duration};

// Registers the backend for `--backend redis://…`.
use mcp_redis as _;
use mcp_runtime::{Answer, Context, Elicit, Fault, Server, server, tool};
use tokio::time::sleep;

/// The name of this replica.
static REPLICA: LazyLock<String> = LazyLock::new(|| format!("process {}", std::process::id()));

/// Confirmation of an order.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to order.
    sure: bool,
}

/// Tell which replica runs this call.
#[tool(read_only)]
fn replica() -> &'static str {
    &REPLICA
}

/// Order a pizza, after the user has confirmed it.
///
/// The answer may arrive at another replica, which passes it on to this one.
#[tool(destructive = false)]
async fn order(
    ctx: &Context,
    /// What is on it.
    topping: String,
) -> Result<String, Fault> {
    let question = format!("Order a pizza with {topping}?");
    match ctx.elicit::<Confirm>("confirm", question).await? {
        Answer::Accept(Confirm { sure: true }) => Ok(format!("ordered a pizza with {topping}")),
        _ => Ok("ordered nothing".to_owned()),
    }
}

/// Bake, and report the progress.
///
/// A client that loses its connection resumes the event stream at any replica, and a task can be polled at any replica.
#[tool(task, destructive = false)]
async fn bake(
    ctx: &Context,
    /// The time in tenths of a second.
    #[arg(range = 1..=600)]
    time: u32,
) -> String {
    for passed in 1..=time {
        sleep(Duration::from_millis(100)).await;
        ctx.progress(passed, time, "baking");
    }
    format!("baked by {}", *REPLICA)
}

#[server]
fn main(server: Server) -> Server {
    server.title("Pizzeria")
}

#[cfg(test)]
mod tests;
