use std::{fmt, net::SocketAddr, pin::Pin};

use bytes::Bytes;
use http::{Request, Response};

/// The future of [`AuthorizationRoutes::respond`].
pub type RouteFuture<'a> = Pin<Box<dyn Future<Output = Response<Bytes>> + Send + 'a>>;

/// HTTP routes that belong to authorization and are served next to the MCP endpoint, such as those of an authorization
/// server in the same process. An authenticator adds them with
/// [`Authenticator::routes`](crate::Authenticator::routes).
///
/// Requests to these routes are not authenticated. Their `Host` must be allowed like that of any other request, but
/// their `Origin` is not checked: what a web page may do with a route is decided by the route, which therefore answers
/// CORS preflight requests, too. Bodies have at most 64 KiB. A request is handled to its end even if its client
/// disconnects, except that a response that takes longer than a minute becomes the status 503. At most 128 requests are
/// handled at once, of which each peer has its [share](crate::HttpOptions::max_peer_share); others are answered with
/// status 503, too.
pub trait AuthorizationRoutes: fmt::Debug + Send + Sync + 'static {
    /// Returns whether a path is one of the routes, whatever the method.
    fn serves(&self, path: &str) -> bool;

    /// Responds to a request. `peer` is the address of the sender, if it is known.
    fn respond(&self, request: Request<Bytes>, peer: Option<SocketAddr>) -> RouteFuture<'_>;
}
