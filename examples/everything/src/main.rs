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

// Registers the backend for `--backend redis://…`.
#[cfg(feature = "redis")]
use mcp_redis as _;
use mcp_runtime::{Server, server};

/// An image of a single pixel.
const PNG: &[u8] = include_bytes!("../media/pixel.png");
/// An empty audio file.
const WAV: &[u8] = include_bytes!("../media/silence.wav");

#[server]
fn main(server: Server) -> Server {
    changes::register(server)
        .with_skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"))
        .title("Everything")
        .instructions("A server for tests. Each tool demonstrates the protocol feature that it is named after.")
}

#[cfg(test)]
mod tests;
