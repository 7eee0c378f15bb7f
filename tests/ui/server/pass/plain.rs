#![no_implicit_prelude]
//! A server without flags, in a crate without a prelude.

#[::mcp_runtime::server]
fn main(server: ::mcp_runtime::Server) -> ::mcp_runtime::Server {
    server
}
