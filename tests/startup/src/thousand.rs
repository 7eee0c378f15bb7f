//! A server with a thousand tools: `echo` and those that `build.rs` generates.

mod echo;

include!(concat!(env!("OUT_DIR"), "/tools.rs"));

mcp_runtime::main!();
