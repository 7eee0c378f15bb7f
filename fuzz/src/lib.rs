//! Shared by the fuzz targets: a server without functions that panic, and an independent reader of messages.
//!
//! A panic anywhere ends a target, even where the runtime would catch it.

pub mod json;
pub mod output;
pub mod server;
pub mod sse;
#[allow(dead_code, unreachable_pub, reason = "the parser of `cargo mcp`, which is a program")]
#[path = "../../cargo-mcp/src/sse.rs"]
mod sse_parser;

use tokio::runtime::{Builder, Runtime};

/// Creates a runtime whose clock advances only while nothing is ready, so that no time is spent waiting.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime needs no resources")
}
