//! Listening on an address, and accepting its connections.

use std::io;

use tokio::net::TcpListener;

use super::stream::Stream;
#[cfg(unix)]
use super::unix::SocketListener;
use crate::transport::http::{address::HttpAddress, options::HttpOptions, peers::Remote};

/// A listener for connections.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(SocketListener),
}

impl Acceptor {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or if other machines can reach it and no host is allowed.
    pub(super) async fn bind(address: &HttpAddress, options: &HttpOptions) -> io::Result<Self> {
        options.check_address(address)?;
        let bound = match address {
            HttpAddress::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            #[cfg(unix)]
            HttpAddress::Unix(path) => SocketListener::bind(path, options.socket_mode).await.map(Self::Unix),
            #[cfg(not(unix))]
            HttpAddress::Unix(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this platform does not support Unix sockets"))
            }
        };
        bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on `{address}`: {error}")))
    }

    /// Returns the bound address, with the actual port if port 0 was requested.
    pub(super) fn address(&self) -> io::Result<HttpAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(HttpAddress::Tcp),
            #[cfg(unix)]
            Self::Unix(listener) => Ok(HttpAddress::Unix(listener.path().to_owned())),
        }
    }

    /// Accepts a connection. Returns it with its sender.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Remote)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Remote::Address(address)))
            }
            #[cfg(unix)]
            Self::Unix(listener) => {
                let stream = listener.accept().await?;
                let remote = stream.peer_cred().map_or(Remote::Unknown, |peer| Remote::User(peer.uid()));
                Ok((Stream::Unix(stream), remote))
            }
        }
    }
}
