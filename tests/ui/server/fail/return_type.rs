#![allow(unused_variables)]

use mcp_runtime::{Server, server};

#[server]
fn main(server: Server) {
    drop(server);
}
