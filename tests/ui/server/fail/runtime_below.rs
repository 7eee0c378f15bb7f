use mcp_runtime::Server;

#[mcp_runtime::server]
#[tokio::main]
async fn main(server: Server) -> Server {
    server
}
