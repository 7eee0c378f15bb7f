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

use std::{path::PathBuf, sync::LazyLock, time::Duration};

use mcp_auth::ApiKeys;
// Registers the backend for `--backend redis://…`.
use mcp_redis as _;
use mcp_runtime::{
    Context, Elicit, Fault, Handle, Server,
    ask::{Answer, SampleRequest},
    resource, resource_uri, server, tool,
};
use tokio::time::sleep;

/// The name of this replica.
static REPLICA: LazyLock<String> = LazyLock::new(|| format!("process {}", std::process::id()));

/// Confirmation of an order.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to order.
    sure: bool,
}

/// Tell which replica runs this call, and for whom.
#[tool(read_only)]
fn replica(ctx: &Context) -> String {
    format!("{} for {}", *REPLICA, guest(ctx))
}

/// Order a pizza, after the user has confirmed it.
///
/// The answer may arrive at another replica, which passes it on to this one.
#[tool(task, destructive = false)]
async fn order(
    ctx: &Context,
    /// The topping.
    topping: String,
) -> Result<String, Fault> {
    // In 2026-07-28, another replica may receive the answer. It can read the name of the cook, because the replicas
    // share the key that seals the state of the call.
    let cook = ctx.once("cook", async { REPLICA.clone() }).await?;
    let question = format!("Order a pizza with {topping}?");
    match ctx.elicit::<Confirm>("confirm", question).await? {
        Answer::Accept(Confirm { sure: true }) => {
            Ok(format!("{} ordered a pizza with {topping} from {cook}", guest(ctx)))
        }
        _ => Ok(format!("{} ordered nothing", guest(ctx))),
    }
}

/// Have the client's model name a pizza.
#[tool(read_only)]
async fn christen(
    ctx: &Context,
    /// The topping.
    topping: String,
) -> Result<String, Fault> {
    let name = ctx.sample(SampleRequest::new(format!("Name a pizza with {topping}.")).max_tokens(100)).await?;
    Ok(format!("{} named it {}", guest(ctx), name.text()))
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
    format!("baked by {} for {}", *REPLICA, guest(ctx))
}

/// Print the menu, and report the progress.
///
/// A long result survives the loss of the connection, too.
#[tool(read_only)]
async fn menu(
    ctx: &Context,
    /// The length of the menu.
    #[arg(range = 1..=4096)]
    kilobytes: usize,
    /// The time in tenths of a second.
    #[arg(range = 1..=600)]
    time: u32,
) -> String {
    for passed in 1..=time {
        sleep(Duration::from_millis(100)).await;
        ctx.progress(passed, time, "printing");
    }
    "Pizza with tomatoes and cheese.\n".repeat(32 * kilobytes)
}

/// Announce that a topping was delivered, to the clients of all replicas.
#[tool(destructive = false)]
fn deliver(handle: &Handle, topping: String) -> String {
    handle.resource_updated(resource_uri::<stock>(&[("topping", &topping)]));
    handle.resource_list_changed();
    format!("announced by {}", *REPLICA)
}

/// Tell how fresh a topping is.
#[resource("stock://{topping}")]
fn stock(topping: String) -> String {
    format!("{topping} is fresh")
}

/// Returns the name of the caller. Only clients with an API key have one.
fn guest(ctx: &Context) -> &str {
    ctx.principal().unwrap_or("a guest")
}

#[server]
fn main(
    server: Server,
    /// A file with API keys. Clients then need one of them. Otherwise, anyone may call.
    api_keys: Option<PathBuf>,
) -> Result<Server, mcp_auth::Error> {
    let server = server.title("Pizzeria").task_ttl(Duration::from_secs(60));
    Ok(match api_keys {
        Some(file) => server.authenticate(ApiKeys::file(file)?),
        None => server,
    })
}

#[cfg(test)]
mod tests;
