//! Access to the HTTP request of a call, for functions and layers.

use std::net::SocketAddr;

use http::HeaderMap;

use super::request::HttpRequestSource;
use crate::{engine::Caller, handler::Context};

impl Caller {
    /// Returns the headers of the HTTP request, or `None` on other transports.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.attachment::<HttpRequestSource>().map(HttpRequestSource::headers)
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.attachment::<HttpRequestSource>()?.extension()
    }

    /// Returns the address from which the HTTP request came: the client's or the nearest proxy's. See
    /// [`Context::peer_addr`].
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.attachment::<HttpRequestSource>()?.peer_addr()
    }
}

impl Context {
    /// Returns the headers of the HTTP request, or `None` on other transports.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.attachment::<HttpRequestSource>().map(HttpRequestSource::headers)
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.attachment::<HttpRequestSource>()?.extension()
    }

    /// Returns the address from which the HTTP request came: the client's or the nearest proxy's.
    ///
    /// A mounted service does not know the address. The framework it is mounted into can insert it into the
    /// [extensions](Self::extension).
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.attachment::<HttpRequestSource>()?.peer_addr()
    }
}
