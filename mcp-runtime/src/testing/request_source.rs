use std::{net::SocketAddr, sync::Arc};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use super::client::TestClient;
use crate::{
    Identity, Principal,
    engine::{MirroredFields, Permit, RequestSource},
    error::Fault,
    handler::RequestHead,
};

/// The head of the HTTP request with which each message of a test client seems to arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct TestRequestSource {
    headers: HeaderMap,
    extensions: Extensions,
}

impl RequestHead for TestRequestSource {
    fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    fn identity(&self) -> Option<&Identity> {
        self.extensions.get()
    }

    /// Only HTTP responses name the scopes to request.
    fn demand_scopes(&self, _: &[String]) {}

    fn blocking_share(&self) -> Option<&Arc<Semaphore>> {
        None
    }

    fn check_share(&self) -> Option<&Arc<Semaphore>> {
        None
    }
}

/// Nothing is mirrored in headers, and nothing is limited.
impl RequestSource for TestRequestSource {
    fn check_request(&self, _: &MirroredFields<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check_unversioned(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn check_arguments(&self, _: &[(&str, Option<&str>)]) -> Result<(), Fault> {
        Ok(())
    }

    fn admit(&self) -> Result<Permit, Fault> {
        Ok(Box::new(()))
    }

    fn check_capacity(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn admit_listener(&self) -> Result<Permit, Fault> {
        Ok(Box::new(()))
    }

    fn principal(&self) -> Option<&str> {
        let principal = self.identity().map_or_else(|| self.extensions.get(), |identity| Some(identity.principal()));
        principal.map(Principal::as_str)
    }
}

/// What functions read from the HTTP request.
impl TestClient {
    /// Opens a new connection whose requests have a value in their extensions, as if a middleware had inserted it.
    ///
    /// A [`Principal`] or an [`Identity`] identifies the caller. [`Context::extension`](crate::Context::extension) returns other values.
    /// For two callers of the same server, connect two clients to a [`BuiltServer`](crate::BuiltServer).
    ///
    /// ```
    /// use mcp_runtime::{Context, Principal, Revision, Server, tool};
    ///
    /// /// Return the name of the user.
    /// #[tool(read_only)]
    /// fn whoami(ctx: &Context) -> Option<String> {
    ///     ctx.principal().map(str::to_owned)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("users", "1.0.0").with::<whoami>().build().unwrap();
    /// for name in ["Ada", "Grace"] {
    ///     let mut client = server.test_client(Revision::V2026_07_28).with_extension(Principal::new(name));
    ///     assert_eq!(client.call("whoami", ()).await.unwrap().text(), name);
    /// }
    /// # });
    /// ```
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.source_mut().extensions.insert(value);
        self.reconnected()
    }

    /// Opens a new connection whose requests have a header, which [`Context::headers`](crate::Context::headers)
    /// contains.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, tool};
    ///
    /// /// Greet in the language of the user.
    /// #[tool(read_only)]
    /// fn greet(ctx: &Context) -> &'static str {
    ///     let language = ctx.headers().and_then(|headers| headers.get("accept-language"));
    ///     if language.is_some_and(|language| language == "de") { "Guten Tag" } else { "Hello" }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let client = Server::empty("greeter", "1.0.0").with::<greet>().test_client(Revision::V2025_11_25);
    /// let mut client = client.with_header("accept-language", "de");
    /// assert_eq!(client.call("greet", ()).await.unwrap().text(), "Guten Tag");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name or the value is not valid in a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).unwrap_or_else(|error| panic!("`{name}`: {error}"));
        let value = HeaderValue::try_from(value).unwrap_or_else(|error| panic!("`{value}`: {error}"));
        self.source_mut().headers.append(name, value);
        self.reconnected()
    }
}
