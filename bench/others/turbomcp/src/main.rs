//! A server with one tool over HTTP with sessions.

use std::{io, net::SocketAddr};

use axum::serve::ListenerExt;
use turbomcp::prelude::*;

#[derive(Clone)]
struct Echo;

#[turbomcp::server(name = "echo", version = "0.0.0")]
impl Echo {
    /// Return the message.
    #[tool(description = "Return the message.")]
    async fn echo(&self, text: String) -> McpResult<String> {
        Ok(text)
    }
}

fn main() -> io::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> io::Result<()> {
    let address = std::env::args().nth(2).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("turbomcp listens on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket has that option"));
    let router = Echo.builder().into_axum_router();
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await
}
