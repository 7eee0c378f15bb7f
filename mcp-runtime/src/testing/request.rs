use http::{HeaderName, HeaderValue};

use super::client::TestClient;

/// The HTTP request as functions read it.
impl TestClient {
    /// Opens a new connection whose requests have a value in their extensions, as if a middleware had inserted it.
    ///
    /// A [`Principal`](crate::Principal) or an [`Identity`](crate::Identity) identifies the caller.
    /// [`Context::extension`](crate::Context::extension) returns other values. For two callers of the same server, connect
    /// two clients to a [`BuiltServer`](crate::BuiltServer).
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
