//! What a function can ask of its request when that came over HTTP.

use std::net::SocketAddr;

use http::{HeaderMap, request::Parts};

use crate::Context;

/// The address that a request came from, in the request's extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerAddress(pub(super) SocketAddr);

impl Context {
    /// The headers of the HTTP request; none over other transports.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.attachment::<Parts>().map(|request| &request.headers)
    }

    /// What a middleware put into the extensions of the HTTP request, by its type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.attachment::<Parts>()?.extensions.get()
    }

    /// The address that the HTTP request came from: of the client, or of the nearest proxy. A mounted service does not know it, but
    /// the framework that it is mounted into may put it into the [extensions](Self::extension).
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.extension::<PeerAddress>().map(|peer| peer.0)
    }
}
