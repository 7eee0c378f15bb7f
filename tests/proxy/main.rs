//! Servers behind `mcp_proxy`: what clients observe, and what hostile upstreams can do.

mod attacks;
mod behaviour;
mod changes;
mod connections;
mod fake;
mod lifetime;
mod pages;
mod questions;
mod tasks;

use std::io;

use mcp_proxy::Upstream;
use mcp_runtime::{BuiltServer, HttpOptions, Revision, Server, http};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Serves a server over HTTP, and returns its address.
async fn serve(server: &BuiltServer) -> String {
    let listener = http::Listener::bind(([127, 0, 0, 1], 0)).await.unwrap();
    let address = listener.address().unwrap();
    let service = server.clone().into_http_service(HttpOptions::default()).unwrap();
    tokio::spawn(http::serve(listener, service).into_future());
    address.to_string()
}

/// Returns the addresses of a server that speaks only one revision, for each of them.
async fn of_each_revision(server: &BuiltServer) -> Vec<(Revision, String)> {
    let address = serve(server).await;
    let mut addresses = Vec::new();
    for revision in Revision::ALL {
        let own = if revision.is_stateless() { address.clone() } else { legacy(address.clone(), revision).await };
        addresses.push((revision, own));
    }
    addresses
}

/// Starts a server in front of another one that knows no stateless revision, and negotiates this one.
async fn legacy(address: String, revision: Revision) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(forward(client, address.clone(), revision));
        }
    });
    own
}

/// Starts a server in front of another one. Its connections end when another server takes that place.
async fn restarting(servers: watch::Receiver<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut servers = servers.clone();
            let address = servers.borrow_and_update().clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    _ = servers.changed() => {}
                }
            });
        }
    });
    own
}

/// Passes requests on, of which each is read at once. A request for a handshake that proposes another revision gets no response.
async fn forward(mut client: TcpStream, address: String, revision: Revision) -> io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    let (mut request, mut response) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let length = tokio::select! {
            length = client.read(&mut request) => length?,
            length = server.read(&mut response) => match length? {
                0 => return Ok(()),
                length => {
                    client.write_all(&response[..length]).await?;
                    continue;
                }
            },
        };
        let request = &mut request[..length];
        let position = |request: &[u8], part: &str| request.windows(part.len()).rposition(|it| it == part.as_bytes());
        if length == 0 {
            return Ok(());
        }
        if position(request, "server/discover").is_some() {
            client.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
            return client.shutdown().await;
        }
        // The client proposes its newest revision.
        let newest = Revision::V2025_11_25.as_str();
        if position(request, "\"initialize\"").is_some() {
            let Some(start) = position(request, newest) else { return Ok(()) };
            request[start..start + newest.len()].copy_from_slice(revision.as_str().as_bytes());
        }
        server.write_all(request).await?;
    }
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
