//! Listening on an address, and accepting its connections.

use std::io;

use tokio::net::{TcpListener, TcpStream};

use super::connection::Stream;
#[cfg(feature = "tls")]
use super::tls::Certificate;
#[cfg(unix)]
use super::unix::{self, SocketFile};
use crate::transport::http::{options::HttpAddress, peers::Remote};
#[cfg(feature = "tls")]
use std::{path::PathBuf, sync::Arc};
#[cfg(unix)]
use tokio::net::UnixListener;

/// The number of unsent bytes that the kernel accepts for a connection. Linux reports room for more when less than half
/// of it is unsent.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 128 << 10;

/// A listener for [`http::serve`](crate::http::serve).
///
/// A [`TcpListener`] of tokio, or a `UnixListener`, converts into it. [`bind`](Self::bind) accepts an address that is only
/// known at run time, and takes care of the file of a Unix socket. With the feature `tls`, [`tls`](Self::tls) serves HTTPS.
///
/// ```
/// use mcp_runtime::http::{HttpAddress, Listener};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address: HttpAddress = "127.0.0.1:0".parse()?; // or `unix:/run/my-server.sock`
/// let listener = Listener::bind(address).await?;
/// assert_ne!(listener.address()?.socket_addr().unwrap().port(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    acceptor: Acceptor,
    /// The certificate with which connections are encrypted, if they are.
    #[cfg(feature = "tls")]
    pub(super) certificate: Option<Arc<Certificate>>,
}

#[derive(Debug)]
enum Acceptor {
    Tcp(TcpListener),
    /// The file comes first, so that it is removed before connections are refused. `None` if the caller has created it.
    #[cfg(unix)]
    Unix(Option<SocketFile>, UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::new(Acceptor::Tcp(listener))
    }
}

#[cfg(unix)]
impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::new(Acceptor::Unix(None, listener))
    }
}

impl Listener {
    fn new(acceptor: Acceptor) -> Self {
        Self {
            acceptor,
            #[cfg(feature = "tls")]
            certificate: None,
        }
    }

    /// Listens on an address.
    ///
    /// A Unix socket is a file with mode 0600, so that only the user of the process and root can connect. A file that a
    /// dead server has left is replaced, and the file is removed when the listener is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound. The path of a Unix socket cannot be bound if another server
    /// listens on it, if the file is not a socket, or if the platform has no Unix sockets.
    pub async fn bind(address: impl Into<HttpAddress>) -> io::Result<Self> {
        Self::bind_with_mode(&address.into(), 0o600).await
    }

    /// Listens on an address. The file of a Unix socket has these permissions.
    #[cfg_attr(not(unix), expect(unused_variables, reason = "there are no Unix sockets"))]
    pub(crate) async fn bind_with_mode(address: &HttpAddress, socket_mode: u32) -> io::Result<Self> {
        let bound = match address {
            HttpAddress::Tcp(address) => TcpListener::bind(address).await.map(Acceptor::Tcp),
            #[cfg(unix)]
            HttpAddress::Unix(path) => {
                unix::bind(path, socket_mode).await.map(|(file, listener)| Acceptor::Unix(Some(file), listener))
            }
            #[cfg(not(unix))]
            HttpAddress::Unix(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this platform does not support Unix sockets"))
            }
        };
        let bound = bound.map(Self::new);
        bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on `{address}`: {error}")))
    }

    /// Serves HTTPS, with HTTP/2 and HTTP/1.1, instead of plain HTTP.
    ///
    /// The files are PEM: the certificate of the server followed by those of intermediate authorities, and its private key
    /// without a passphrase. They are read again at most a minute after they have changed, when the next client connects,
    /// and until both are valid, the earlier certificate is used.
    ///
    /// Connections beyond the [limit](crate::http::ListenerOptions::max_connections) are closed without a response.
    ///
    /// ```no_run
    /// use mcp_runtime::http::{HttpAddress, Listener};
    ///
    /// # async fn bind() -> std::io::Result<()> {
    /// let address = HttpAddress::from(([0, 0, 0, 0], 443));
    /// let listener = Listener::bind(address).await?.tls("cert.pem", "key.pem")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, if the certificate or the key is missing or invalid, if they do not belong
    /// together, or if the listener is a Unix socket.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> io::Result<Self> {
        #[cfg(unix)]
        if let Acceptor::Unix(..) = self.acceptor {
            let why = "TLS is not supported on a Unix socket: its connections do not leave the machine";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.certificate = Some(Arc::new(Certificate::open(certificate.into(), key.into())?));
        Ok(self)
    }

    /// Returns whether connections are encrypted.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.certificate.is_some();
        #[cfg(not(feature = "tls"))]
        return false;
    }

    /// Returns the URL of an endpoint.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`address`](Self::address).
    pub(crate) fn url(&self, path: &str) -> io::Result<String> {
        Ok(self.address()?.url(if self.is_tls() { "https" } else { "http" }, path))
    }

    /// Returns the bound address, with the actual port if port 0 was requested.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system reports none, or if a Unix socket has no path.
    pub fn address(&self) -> io::Result<HttpAddress> {
        match &self.acceptor {
            Acceptor::Tcp(listener) => listener.local_addr().map(HttpAddress::Tcp),
            #[cfg(unix)]
            Acceptor::Unix(Some(file), _) => Ok(HttpAddress::Unix(file.path.clone())),
            #[cfg(unix)]
            Acceptor::Unix(None, listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(HttpAddress::Unix(path.to_owned()))
            }
        }
    }

    /// Accepts a connection. Returns it with its sender.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Remote)> {
        match &self.acceptor {
            Acceptor::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                limit_unsent(&stream);
                Ok((Box::new(stream), Remote::Address(address)))
            }
            #[cfg(unix)]
            Acceptor::Unix(_, listener) => {
                let (stream, _) = listener.accept().await?;
                let remote = stream.peer_cred().map_or(Remote::Unknown, |peer| Remote::User(peer.uid()));
                Ok((Box::new(stream), remote))
            }
        }
    }
}

/// Limits the output that the kernel accepts but cannot send yet.
///
/// Otherwise, the kernel accepts several megabytes for a client that does not read, and reports room only when a third
/// of them has been sent, so that the rate of a slow client cannot be measured. Limiting the whole send buffer instead
/// would also limit the throughput of distant clients.
#[cfg(target_os = "linux")]
fn limit_unsent(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
}

/// Does nothing, since only Linux supports such a limit.
#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::{io::AsyncReadExt as _, net::TcpSocket};

    use super::*;

    /// The progress of a client must become visible long before the write timeout, however large the kernel's buffers
    /// may grow.
    #[tokio::test]
    async fn the_kernel_hides_little_of_what_a_client_reads() {
        const LIMIT: usize = 512 << 10;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let (client, accepted) = tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
        let (mut client, (server, _)) = (client.unwrap(), accepted.unwrap());
        limit_unsent(&server);
        let mut buffer = vec![0; 16 << 10];
        for _ in 0..20 {
            let piece = vec![b'x'; 64 << 10];
            let written: usize = std::iter::from_fn(|| server.try_write(&piece).ok()).sum();
            let mut read = 0;
            loop {
                tokio::select! {
                    biased;
                    writable = server.writable() => break writable.unwrap(),
                    length = client.read(&mut buffer) => read += length.unwrap(),
                }
            }
            assert!(written <= LIMIT && read <= LIMIT, "{written} bytes accepted, {read} read before the next");
        }
    }
}
