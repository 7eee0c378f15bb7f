//! The connection that a call came from, and what is known about the client.

use std::{fmt, time::Duration};

use crate::model::Level;

/// The connection that a call came from.
pub(crate) trait Peer: Send + Sync {
    /// Sends a notification. Returns `false` if it was dropped because the client does not keep up with reading.
    fn notify(&self, message: &[u8]) -> bool;

    /// The log level that the client set for the session.
    fn session_level(&self) -> Level;

    /// Closes the SSE stream of the call if the transport has one. The client reconnects after `retry`.
    fn close_sse_stream(&self, retry: Duration);
}

/// The HTTP request that carried a message; no other transport has one.
pub(crate) trait RequestHead: Send + Sync {
    #[cfg(feature = "http")]
    fn headers(&self) -> &http::HeaderMap;

    #[cfg(feature = "http")]
    fn extensions(&self) -> &http::Extensions;

    #[cfg(feature = "http")]
    fn peer_addr(&self) -> Option<std::net::SocketAddr>;
}

/// Omits the contents: headers carry credentials.
impl fmt::Debug for dyn RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").finish_non_exhaustive()
    }
}

/// The name and version that a client reports about itself. They are not verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The name of the program.
    pub name: String,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// The display name.
    #[serde(default)]
    pub title: Option<String>,
}
