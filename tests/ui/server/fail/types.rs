#![allow(unused_variables)]

use mcp_runtime::server;

struct Flag;

#[server]
async fn main(server: String, flag: Flag) -> String {
    server
}
