//! The connection of a call, and the client's description of itself.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use crate::{auth::Identity, model::Level};

/// The connection on which a call was received.
pub(crate) trait Peer: Send + Sync {
    /// Sends a notification. Returns `false` if it was dropped because the client reads too slowly.
    fn notify(&self, message: &[u8]) -> bool;

    /// Returns the log level that the client set for the session.
    fn session_level(&self) -> Level;

    /// Counts a log message. Returns `false` if it exceeds the rate of the session.
    fn admits_log_message(&self) -> bool;

    /// Closes the SSE stream of the call, if any. The client reconnects after `retry`.
    fn close_sse_stream(&self, retry: Duration);
}

/// The head of the HTTP request that carried a message. Other transports do not have one.
pub(crate) trait RequestHead: Send + Sync {
    #[cfg(feature = "http")]
    fn headers(&self) -> &http::HeaderMap;

    #[cfg(feature = "http")]
    fn extensions(&self) -> &http::Extensions;

    #[cfg(feature = "http")]
    fn peer_addr(&self) -> Option<std::net::SocketAddr>;

    /// Returns what distinguishes a sender without a principal from others, or `None` if nothing does.
    fn sender_key(&self) -> Option<String>;

    /// Returns the authenticated sender.
    fn identity(&self) -> Option<&Identity>;

    /// Records the scopes that the sender has to request, for the response of the transport. Replaces those of an
    /// earlier operation of the same request.
    fn demand_scopes(&self, scopes: &[String]);

    /// Returns the permits that limit the blocking functions of the sender.
    fn blocking_share(&self) -> Option<&Arc<Semaphore>>;

    /// Returns the permits that limit the slow checks of the sender's arguments.
    fn check_share(&self) -> Option<&Arc<Semaphore>>;
}

/// Omits the contents: headers carry credentials.
impl fmt::Debug for dyn RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").finish_non_exhaustive()
    }
}

/// The name and version that a client reports about itself. They are not verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
