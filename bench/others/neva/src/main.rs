//! A server with one tool over HTTP of 2026-07-28.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use neva::{App, map_tool};

fn main() -> io::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> io::Result<()> {
    // The framework does not tell which port it has bound.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    thread::spawn(move || announce(address));
    let mut app = App::new()
        .with_options(|options| options.with_http(|http| http.bind(address.to_string()).with_endpoint("/mcp")));
    map_tool!(app, "echo", |text: String| async move { text });
    app.run().await;
    Ok(())
}

/// Prints the address once the server listens on it.
fn announce(address: SocketAddr) {
    while TcpStream::connect(address).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    eprintln!("neva listens on http://{address}/mcp");
}
