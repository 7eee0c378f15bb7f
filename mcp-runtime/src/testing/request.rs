use std::{error::Error, fmt};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{client::TestClient, http_transport::HttpTransport};
use crate::{
    auth::{Identity, Principal},
    revision::Revision,
    transport::http::HttpBody,
};

/// HTTP: a service in place of a server, and the request as functions read it.
impl TestClient {
    /// Connects a client to an HTTP service, such as the axum application into which a server is
    /// [mounted](crate::BuiltServer::into_http_service), or the [`HttpService`](crate::http::HttpService) itself. There is no
    /// socket: each message is a request to the service, with everything that is in front of the server.
    ///
    /// `path` is the path of the server. The requests have the headers that the protocol requires, and the headers of
    /// [`with_header`](Self::with_header), which replace them. In revisions with sessions, the client opens one before
    /// its first message, and the stream on which the server sends notifications. A response without a message is an
    /// [`RpcError`](crate::testing::RpcError) with its status as the code, and [`last_response`](Self::last_response)
    /// returns status and headers. As in other clients, arguments are repeated in headers only for tools that the
    /// client has [listed](Self::tools).
    ///
    /// ```
    /// use axum::{
    ///     Router,
    ///     extract::Request,
    ///     http::StatusCode,
    ///     middleware::{self, Next},
    ///     response::Response,
    /// };
    /// use mcp_runtime::{HttpOptions, Revision, Server, testing::TestClient, tool};
    ///
    /// /// Return the answer.
    /// #[tool(read_only)]
    /// fn answer() -> u8 {
    ///     42
    /// }
    ///
    /// async fn check_key(request: Request, next: Next) -> Result<Response, StatusCode> {
    ///     let has_key = request.headers().get("x-key").is_some_and(|key| key == "secret");
    ///     if has_key { Ok(next.run(request).await) } else { Err(StatusCode::FORBIDDEN) }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mcp = Server::empty("oracle", "1.0.0").with::<answer>().build().unwrap();
    /// let mcp = mcp.into_http_service(HttpOptions::default()).unwrap();
    /// let app = Router::new().nest_service("/mcp", mcp).layer(middleware::from_fn(check_key));
    /// for revision in Revision::ALL {
    ///     let mut stranger = TestClient::over_http(app.clone(), "/mcp", revision);
    ///     assert_eq!(stranger.call("answer", ()).await.unwrap_err().code, 403);
    ///
    ///     let mut client = TestClient::over_http(app.clone(), "/mcp", revision).with_header("x-key", "secret");
    ///     assert_eq!(client.call("answer", ()).await.unwrap().text(), "42");
    /// }
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the path is invalid. The methods of the client panic if the service fails instead of responding.
    pub fn over_http<S, B>(service: S, path: &str, revision: Revision) -> Self
    where
        S: Service<Request<HttpBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: fmt::Debug,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        Self::connect(HttpTransport::new(service, path, revision), revision)
    }

    /// Returns the head of the last response to a request of the protocol, if the client was connected with
    /// [`over_http`](Self::over_http).
    ///
    /// ```
    /// use mcp_runtime::{HttpOptions, Revision, Server, testing::TestClient};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let service = Server::empty("empty", "1.0.0").build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    /// let client = TestClient::over_http(service, "/", Revision::V2026_07_28);
    /// let mut client = client.with_header("host", "evil.example");
    /// assert!(client.tools().await.is_err());
    /// assert_eq!(client.last_response().unwrap().status(), 403);
    /// # });
    /// ```
    pub fn last_response(&self) -> Option<&Response<()>> {
        self.wire.transport.last_response()
    }

    /// Opens a new connection whose requests come from an unknown caller over HTTP, who has no scopes. Without this and
    /// the methods below, they come from the local user as over stdio, who needs none.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, auth::{Identity, Principal}, tool};
    ///
    /// /// Delete all notes.
    /// #[tool(scopes("notes:write"))]
    /// fn clear() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("notes", "1.0.0").with::<clear>().build().unwrap();
    /// let mut stranger = server.test_client(Revision::V2026_07_28).anonymous();
    /// assert!(stranger.call("clear", ()).await.is_err());
    ///
    /// let ada = Identity::new(Principal::new("Ada")).with_scopes(["notes:write"]);
    /// let mut ada = server.test_client(Revision::V2026_07_28).with_extension(ada);
    /// assert!(ada.call("clear", ()).await.is_ok());
    /// # });
    /// ```
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        let extensions = &mut self.source_mut().extensions;
        extensions.remove::<Identity>();
        extensions.remove::<Principal>();
        self.reconnected()
    }

    /// Opens a new connection whose requests have a value in their extensions, as if a middleware had inserted it.
    ///
    /// A [`Principal`](crate::auth::Principal) or an [`Identity`](crate::auth::Identity) identifies the caller.
    /// [`Context::extension`](crate::Context::extension) returns other values. For two callers of the same server, connect
    /// two clients to a [`BuiltServer`](crate::BuiltServer).
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, auth::Principal, tool};
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
