use mcp_runtime::{Server, server};

#[server]
fn main(server: Server, list: bool, #[arg(rename = "legacy_sse")] legacy: bool, state_key: String) -> Server {
    let _ = (list, legacy, state_key);
    server
}
