//! A server with one process or several, which then share their state in Redis:
//!
//! ```text
//! replica [--backend redis://ADDRESS] --http ADDRESS
//! ```
//!
//! The limits that 10,000 clients of one address would exceed are raised.

use std::error::Error;

use mcp_redis::Redis;
use mcp_runtime::{
    Handle, HttpOptions, Server, SessionRates, TaskLimits,
    http::{self, HttpAddress, Listener, ListenerOptions},
    resource, tool,
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The resource that changes.
const URI: &str = "bench://resource";

/// Return the message.
#[tool]
fn echo(
    /// The message.
    text: String,
) -> String {
    text
}

/// Announce that the resource has changed.
#[tool]
fn change(handle: &Handle) -> &'static str {
    handle.resource_updated(URI);
    "changed"
}

/// Run as a task.
#[tool(task)]
async fn task() -> &'static str {
    tokio::task::yield_now().await;
    "done"
}

/// Return the growth of the allocated memory.
#[tool]
fn memory() -> String {
    counting::memory()
}

/// A resource that changes.
#[resource("bench://resource")]
fn changing() -> &'static str {
    "changing"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut backend, mut address) = (None, HttpAddress::from(([127, 0, 0, 1], 0)));
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` requires a value"))?;
        match word.as_str() {
            "--backend" => backend = Some(Redis::connect(&value).await?),
            "--http" => address = value.parse()?,
            _ => return Err(format!("unknown option `{word}`").into()),
        }
    }
    let mut server = Server::new("replica", "1.0.0")
        .session_rates(SessionRates::default().task_requests(None))
        .max_tasks(TaskLimits::default().total(1 << 20).per_peer(1 << 20));
    if let Some(redis) = backend {
        server = server.backend(redis);
    }
    let options = HttpOptions::default().max_sessions(20_000).max_peer_share(1.0);
    let service = server.build()?.into_http_service(options)?;
    let listener = Listener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.address()?);
    http::serve(listener, service)
        .options(ListenerOptions::default().max_connections(20_000))
        .with_graceful_shutdown(std::future::pending())
        .await?;
    Ok(())
}
