#![deny(missing_docs, unused, clippy::all)]
//! A server with a `main` and a subscriber of its own, which takes precedence over that of the server.

use std::process::ExitCode;

use mcp_runtime::{Server, server};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The server.
mod serving {
    use super::*;

    /// Serve.
    #[server]
    pub async fn serve(server: Server, #[arg(default)] verbose: bool) -> Server {
        let _ = verbose;
        tracing::info!("configured");
        server
    }
}

fn main() -> ExitCode {
    tracing_subscriber::registry().init();
    serving::serve()
}
