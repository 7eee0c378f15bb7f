use mcp_runtime::{Server, server};

#[server]
fn main(server: Server) -> Server {
    server
}

mcp_runtime::main!();
