//! A server in front of other servers, for tests with real clients and upstreams.
//!
//! `UPSTREAMS` contains a JSON array of `[prefix, url]` and `[prefix, program, argument…]`.

use std::env;

use mcp_proxy::Upstream;
use mcp_runtime::{Server, server};

#[server]
async fn main(_: Server) -> Result<Server, mcp_proxy::Error> {
    let mut server = Server::empty("gateway", "1.0.0");
    let upstreams: Vec<Vec<String>> =
        serde_json::from_str(&env::var("UPSTREAMS").unwrap_or_default()).unwrap_or_default();
    for words in upstreams {
        let [prefix, target, arguments @ ..] = &*words else { continue };
        let upstream =
            if target.starts_with("http") { Upstream::http(target) } else { Upstream::command(target, arguments) };
        server = upstream.timeout(std::time::Duration::from_secs(60)).add_to(server, prefix).await?;
    }
    Ok(server)
}
