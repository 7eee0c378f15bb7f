//! Servers behind `mcp_proxy`: what clients observe, and what hostile upstreams can do.

mod attacks;
mod behaviour;
mod connections;
mod fake;

use std::io;

use mcp_proxy::Upstream;
use mcp_runtime::{BuiltServer, HttpOptions, Server, http};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

/// Serves a server over HTTP, and returns its address.
async fn serve(server: &BuiltServer) -> String {
    let listener = http::Listener::bind(([127, 0, 0, 1], 0)).await.unwrap();
    let address = listener.address().unwrap();
    let service = server.clone().into_http_service(HttpOptions::default()).unwrap();
    tokio::spawn(http::serve(listener, service).into_future());
    address.to_string()
}

/// Starts a server in front of another one that knows no stateless revision.
async fn legacy(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(forward(client, address.clone()));
        }
    });
    own
}

async fn forward(mut client: TcpStream, address: String) -> io::Result<()> {
    let mut head = vec![0; 64 * 1024];
    let length = client.read(&mut head).await?;
    if head[..length].windows(15).any(|part| part == b"server/discover") {
        client.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
        return client.shutdown().await;
    }
    let mut server = TcpStream::connect(address).await?;
    server.write_all(&head[..length]).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

fn url(address: &str) -> String {
    format!("http://{address}/mcp")
}

/// Returns a server with the entries of an upstream.
async fn gateway(address: &str) -> Server {
    Upstream::http(url(address)).add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap()
}

/// Waits until a condition holds.
macro_rules! eventually {
    ($condition:expr) => {
        let waiting = async {
            while !$condition {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect(stringify!($condition));
    };
}
use eventually;
