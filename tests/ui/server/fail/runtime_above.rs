use mcp_runtime::Server;

#[tokio::main(flavor = "current_thread")]
#[mcp_runtime::server]
async fn main(server: Server) -> Server {
    server
}
