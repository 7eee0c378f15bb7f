use std::sync::Arc;

use super::{ClientInfo, RequestHead};
use crate::{auth::Identity, revision::Revision};

/// The sender of a request, as seen by [`Server::visible_to`](crate::Server::visible_to) and [`layers`](crate::layers).
///
/// A client's description of itself is not verified, so authorize by the identity:
///
/// ```
/// use mcp_runtime::{Caller, Server};
///
/// fn is_operator(caller: &Caller) -> bool {
///     caller.identity().is_some_and(|identity| identity.has_scope("operate"))
/// }
///
/// # fn configure(server: Server) -> Server {
/// server.visible_to(|caller, entry| !entry.has_tag("operations") || is_operator(caller))
/// # }
/// ```
#[derive(Debug)]
pub struct Caller {
    pub(crate) principal: Option<Box<str>>,
    pub(crate) client: Option<ClientInfo>,
    pub(crate) revision: Revision,
    pub(crate) local_identity: Option<Identity>,
    pub(crate) head: Option<Arc<dyn RequestHead>>,
}

impl Caller {
    /// Returns the name of the authenticated principal. See [`Context::principal`](crate::Context::principal).
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Returns the authenticated sender: the principal, its scopes and its claims. See
    /// [`Context::identity`](crate::Context::identity).
    pub fn identity(&self) -> Option<&Identity> {
        self.head.as_ref().map_or(self.local_identity.as_ref(), |head| head.identity())
    }

    /// Returns the client's description of itself. It is not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_ref()
    }

    /// Returns the protocol revision of the request.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the headers of the HTTP request, or `None` over other transports.
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(self.head.as_deref()?.headers())
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    #[cfg(feature = "http")]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.head.as_deref()?.extensions().get()
    }

    /// Returns the remote address of the HTTP connection: the client's, or that of the nearest proxy. See
    /// [`Context::peer_addr`](crate::Context::peer_addr).
    #[cfg(feature = "http")]
    pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.head.as_deref()?.peer_addr()
    }
}
