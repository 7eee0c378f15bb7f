//! A server with a thousand tools: `echo` and those that `build.rs` generates. If the environment variable `LIMITED` is set, each
//! caller has a list of its own.

use mcp_runtime::Server;

mod echo;

include!(concat!(env!("OUT_DIR"), "/tools.rs"));

#[mcp_runtime::server]
fn main(server: Server) -> Server {
    match std::env::var_os("LIMITED") {
        Some(_) => server.visible_to(|_, entry| !entry.has_tag("hidden")),
        None => server,
    }
}
