//! Every feature of the framework in one server: the functions that the official conformance suite calls, one module
//! per topic.
//!
//! ```text
//! cargo run -p everything -- --http 127.0.0.1:8080
//! ```

mod asking;
mod cancellation;
mod changes;
mod content;
mod forms;
mod headers;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod streams;
mod tasks;

use std::sync::Arc;

use mcp_redis::Redis;
use mcp_runtime::{MemoryRecords, Records, Server, server};

/// An image of a single pixel.
const PNG: &[u8] = include_bytes!("../media/pixel.png");
/// An empty audio file.
const WAV: &[u8] = include_bytes!("../media/silence.wav");

#[server]
async fn main(
    server: Server,
    /// The URL of the Redis server in which replicas keep the counters that they share. Without it, they are kept in
    /// memory.
    #[arg(env = "MCP_BACKEND")]
    counters: Option<String>,
) -> Result<Server, mcp_redis::Error> {
    let records: Arc<dyn Records> = match counters {
        Some(url) => Arc::new(Redis::connect(&url).await?),
        None => Arc::new(MemoryRecords::default()),
    };
    Ok(register(server, records)
        .skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"))
        .title("Everything")
        .instructions("A server for tests. Each tool demonstrates the protocol feature that it is named after."))
}

/// Adds the shared state of all functions.
fn register(server: Server, records: Arc<dyn Records>) -> Server {
    changes::register(server, Arc::clone(&records)).with_state(cancellation::Running(records))
}

#[cfg(test)]
mod tests;
