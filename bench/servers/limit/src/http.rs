//! The minimal server over HTTP with axum.

mod answer;

use std::io;

use axum::{
    Router,
    body::Bytes,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
    serve::ListenerExt,
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

fn main() -> io::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> io::Result<()> {
    let address = std::env::args().nth(2).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("limit listens on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket has that option"));
    axum::serve(listener, Router::new().route("/mcp", post(respond))).await
}

async fn respond(body: Bytes) -> Response {
    let mut out = Vec::with_capacity(256);
    match answer::answer(&body, &mut out) {
        Ok(()) if out.is_empty() => StatusCode::ACCEPTED.into_response(),
        Ok(()) => ([(header::CONTENT_TYPE, "application/json"), (SESSION, "1")], out).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}
