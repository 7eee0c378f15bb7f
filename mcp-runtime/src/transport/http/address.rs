use std::{
    fmt,
    net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6},
    path::{Path, PathBuf},
    str::FromStr,
};

/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// An address on which a server listens for HTTP: a TCP address, or the path of a Unix socket.
///
/// It is parsed from `127.0.0.1:8080` or `unix:/run/my-server.sock`, and displayed in the same form.
///
/// ```
/// use std::path::PathBuf;
///
/// use mcp_runtime::http::HttpAddress;
///
/// assert_eq!(HttpAddress::from(([127, 0, 0, 1], 8080)), "127.0.0.1:8080".parse().unwrap());
/// assert_eq!(HttpAddress::Unix(PathBuf::from("/run/my-server.sock")), "unix:/run/my-server.sock".parse().unwrap());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAddress {
    /// A TCP address. Port 0 selects a free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl HttpAddress {
    /// Returns the TCP address, or `None` for a Unix socket.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns the URL of an endpoint. A Unix socket has the form that `proxy_pass` of nginx expects.
    pub(crate) fn url(&self, scheme: &str, path: &str) -> String {
        match self {
            Self::Tcp(address) => format!("{scheme}://{address}{path}"),
            Self::Unix(socket) => format!("{scheme}://{UNIX}{}:{path}", socket.display()),
        }
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for HttpAddress {
    type Err = InvalidHttpAddress;

    fn from_str(text: &str) -> Result<Self, InvalidHttpAddress> {
        match text.strip_prefix(UNIX) {
            Some(path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            _ => text.parse().map(Self::Tcp).map_err(|_| InvalidHttpAddress(text.to_owned())),
        }
    }
}

impl From<SocketAddr> for HttpAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<SocketAddrV4> for HttpAddress {
    fn from(address: SocketAddrV4) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<SocketAddrV6> for HttpAddress {
    fn from(address: SocketAddrV6) -> Self {
        Self::Tcp(address.into())
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for HttpAddress {
    fn from(address: (I, u16)) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<&Path> for HttpAddress {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl From<PathBuf> for HttpAddress {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

/// The error of parsing an [`HttpAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHttpAddress(String);

impl fmt::Display for InvalidHttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid address `{}`, expected an IP address and a port, such as 127.0.0.1:8080, or the path of a Unix \
             socket, such as unix:/run/my-server.sock",
            self.0
        )
    }
}

impl std::error::Error for InvalidHttpAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (text, url) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080/mcp")),
            ("[::1]:80", Some("http://[::1]:80/mcp")),
            ("unix:/run/x.sock", Some("http://unix:/run/x.sock:/mcp")),
            ("unix:x.sock", Some("http://unix:x.sock:/mcp")),
            ("unix:", None),
            ("/run/x.sock", None),
            ("localhost:8080", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            let address: Result<HttpAddress, _> = text.parse();
            assert_eq!(address.as_ref().ok().map(|address| address.url("http", "/mcp")).as_deref(), url, "{text}");
            assert_eq!(address.is_ok().then_some(text), address.map(|address| address.to_string()).ok().as_deref());
        }
    }
}
