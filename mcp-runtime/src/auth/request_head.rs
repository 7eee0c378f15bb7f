//! The head of an HTTP request.

use std::{fmt, sync::Arc};

use tokio::sync::Semaphore;

use super::Identity;

/// The head of the HTTP request that carried a message. Other transports do not have one.
pub(crate) trait RequestHead: Send + Sync {
    #[cfg(feature = "http")]
    fn headers(&self) -> &http::HeaderMap;

    #[cfg(feature = "http")]
    fn version(&self) -> http::Version;

    #[cfg(feature = "http")]
    fn extensions(&self) -> &http::Extensions;

    #[cfg(feature = "http")]
    fn peer_addr(&self) -> Option<std::net::SocketAddr>;

    /// Returns whether the connection is one of a Unix socket.
    #[cfg(feature = "http")]
    fn is_unix(&self) -> bool;

    /// Returns what distinguishes a sender without a principal from other senders, or `None` if nothing does.
    fn sender_key(&self) -> Option<String>;

    /// Returns the authenticated sender.
    fn identity(&self) -> Option<&Identity>;

    /// Returns the name of the authenticated sender, which a middleware may have identified by its name only.
    fn principal(&self) -> Option<&str>;

    /// Records the scopes that the sender has to request, for the response of the transport. Replaces the scopes of an
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
