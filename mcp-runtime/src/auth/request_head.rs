//! The head of an HTTP request.

use std::{borrow::Cow, fmt, net::SocketAddr, sync::Arc};

use tokio::sync::Semaphore;

use super::Identity;

/// The head of the HTTP request that carried a message. Other transports do not have one.
pub(crate) trait RequestHead: Send + Sync {
    #[cfg(feature = "http")]
    fn headers(&self) -> &http::HeaderMap;

    #[cfg(feature = "http")]
    fn extensions(&self) -> &http::Extensions;

    /// Returns the transport, `tcp` or `unix`, and the version of HTTP, such as `1.1`.
    fn network(&self) -> (&'static str, &'static str);

    fn peer_addr(&self) -> Option<SocketAddr>;

    /// Returns the header with this index in [`TraceCarrier::KEYS`](crate::telemetry::TraceCarrier::KEYS).
    fn trace_header(&self, key: usize) -> Option<Cow<'_, str>>;

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
