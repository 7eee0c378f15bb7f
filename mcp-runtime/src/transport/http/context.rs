//! What a function can ask of its request when that came over HTTP.

use std::net::SocketAddr;

use http::HeaderMap;

use super::headers::HttpRequestSource;
use crate::{Caller, Context};

/// Whom a request comes from, as a middleware has found out: it puts this into the extensions of the HTTP request.
///
/// Functions find it with [`Context::principal`], and [`Server::visible_to`](crate::Server::visible_to) with
/// [`Caller::principal`].
///
/// ```
/// # use mcp_runtime::Principal;
/// # fn authenticate(request: &mut http::Request<()>) {
/// request.extensions_mut().insert(Principal::new("ada@example.com"));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(String);

impl Principal {
    /// Names somebody.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Caller {
    /// The headers of the HTTP request; none over other transports.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.attachment::<HttpRequestSource>().map(HttpRequestSource::headers)
    }

    /// What a middleware put into the extensions of the HTTP request, by its type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.attachment::<HttpRequestSource>()?.extension()
    }

    /// The address that the HTTP request came from: of the client, or of the nearest proxy. See [`Context::peer_addr`].
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.attachment::<HttpRequestSource>()?.peer_addr()
    }
}

impl Context {
    /// The headers of the HTTP request; none over other transports.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.attachment::<HttpRequestSource>().map(HttpRequestSource::headers)
    }

    /// What a middleware put into the extensions of the HTTP request, by its type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.attachment::<HttpRequestSource>()?.extension()
    }

    /// The address that the HTTP request came from: of the client, or of the nearest proxy. A mounted service does not know it, but
    /// the framework that it is mounted into may put it into the [extensions](Self::extension).
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.attachment::<HttpRequestSource>()?.peer_addr()
    }
}
