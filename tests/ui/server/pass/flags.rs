#![deny(missing_docs, unused, clippy::all)]
//! A server with flags.

use mcp_runtime::{Server, server, tool};

/// A tool.
#[tool]
fn nothing() {}

/// Serve.
#[server]
async fn main(
    server: Server,
    /// The port.
    #[arg(default = 80, range = 1..=65535, env = "PORT")]
    port: u16,
    name: Option<String>,
    #[arg(default)] words: &[String],
) -> Result<Server, Box<dyn std::error::Error>> {
    let _ = (port, name, words);
    Ok(server)
}
