//! A server of a thousand tools: `echo`, and what `build.rs` writes.

mod echo;

include!(concat!(env!("OUT_DIR"), "/tools.rs"));

mcp_runtime::main!();
