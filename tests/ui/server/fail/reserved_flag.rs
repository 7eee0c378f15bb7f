use mcp_runtime::{Server, server};

#[server]
fn main(server: Server, list: bool, #[arg(rename = "legacy_sse")] legacy: bool) -> Server {
    let _ = (list, legacy);
    server
}
