use std::{
    convert::Infallible,
    future::{pending, ready},
    io,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use tower_http::cors::CorsLayer;
use tower_layer::Layer as _;
use tower_service::Service;

use super::{
    authorization::{AuthorizationService, admit},
    endpoint::Endpoint,
    guard,
    legacy::LegacySessions,
    options::HttpAddress,
    peers::Remote,
    post::post,
    request::HttpRequestSource,
    request_body::RequestBody,
    response::{self, HttpBody, HttpResponse, Rejection, ResponseFuture},
    routing,
};

/// An MCP endpoint as a [`tower_service::Service`], which can be mounted into axum and other frameworks based on
/// `http`.
///
/// ```no_run
/// # use mcp_runtime::{HttpOptions, Server};
/// # fn mount(server: Server) -> Result<(), mcp_runtime::BuildError> {
/// let mcp = server.build()?.into_http_service(HttpOptions::default())?;
/// // axum::Router::new().nest_service("/mcp", mcp)
/// # Ok(())
/// # }
/// ```
///
/// Functions read values that a middleware inserts into the extensions of the request with
/// [`Context::extension`](crate::Context::extension). The service answers CORS preflight requests itself, so middleware
/// in front of it must pass OPTIONS requests through.
#[derive(Debug, Clone)]
pub struct HttpService {
    pub(super) endpoint: Endpoint,
    cors: Arc<CorsLayer>,
    /// The sessions of 2024-11-05, which only a listener serves.
    pub(super) legacy: LegacySessions,
}

impl HttpService {
    pub(crate) fn new(endpoint: Endpoint, legacy: LegacySessions) -> Self {
        let cors = Arc::new(guard::cors(endpoint.options()));
        Self { endpoint, cors, legacy }
    }

    /// Checks that the server may be served at an address, and that the backend belongs to it.
    pub(crate) async fn check_start(&self, address: Option<&HttpAddress>) -> io::Result<()> {
        address.map_or(Ok(()), |address| self.endpoint.options().check_address(address))?;
        self.endpoint.engine().check_name().await
    }

    /// Returns the same service for the requests of one connection.
    pub(super) fn for_remote(&self, remote: Remote, is_tls: bool) -> Self {
        let endpoint = self.endpoint.for_remote(remote, is_tls);
        Self { endpoint, cors: Arc::clone(&self.cors), legacy: self.legacy.clone() }
    }

    /// Returns everything that authorization serves outside of the path of this service: the metadata of the protected
    /// resource, and the [routes](crate::auth::AuthorizationRoutes) of the authenticator. The application into which this
    /// service is mounted passes these paths to it, or all paths that it does not know.
    pub fn authorization_service(&self) -> AuthorizationService {
        AuthorizationService::new(self.endpoint.clone())
    }

    /// Shuts this service and its clones down gracefully: ends subscriptions, waits for the requests that are being
    /// received, then rejects new calls with status 503, and waits for the calls in flight and running tasks. After `grace`,
    /// cancels those that remain. Then ends every session and stream. New calls are rejected from then on, too.
    ///
    /// Streams otherwise stay open as long as their clients want, which delays the graceful shutdown of the server into
    /// which the service is mounted.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mcp_runtime::http::HttpService;
    /// # async fn shutdown_signal() {}
    /// # async fn shutdown(mcp: HttpService) {
    /// // axum::serve(listener, app).with_graceful_shutdown(async move {
    /// shutdown_signal().await;
    /// mcp.drain(Duration::from_secs(5)).await;
    /// // Calls in flight continue, while the rest of the application is still served.
    /// mcp.graceful_shutdown(Duration::from_secs(10)).await;
    /// // })
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves sessions and streams open and lets new calls in. Subscriptions have ended.
    pub async fn graceful_shutdown(&self, grace: Duration) {
        self.endpoint.end_subscriptions();
        self.endpoint.shut_down(grace, pending()).await;
        self.endpoint.engine().flush_changes().await;
    }

    /// Lets [`is_ready`](Self::is_ready) return `false` from now on, and waits for `delay`, in which load balancers notice
    /// it. This service and its clones still serve all requests.
    ///
    /// Call it when a shutdown is requested, before [`graceful_shutdown`](Self::graceful_shutdown) and before the server
    /// into which the service is mounted stops accepting connections. The chapter
    /// [Deploying](crate::guide::deploying#inside-another-application) shows a whole program.
    ///
    /// # Cancel safety
    ///
    /// The service is not ready any more even if the future is dropped.
    pub async fn drain(&self, delay: Duration) {
        self.endpoint.drain(delay).await;
    }

    /// Returns whether this service should receive requests, like the readiness check of a server that is not mounted:
    /// it is neither being [drained](Self::drain) nor shut down, and the [backend](crate::Server::backend) responds
    /// within two seconds and accepts changes. The backend is asked at most once a second.
    ///
    /// ```
    /// # use mcp_runtime::http::HttpService;
    /// async fn ready(mcp: HttpService) -> http::StatusCode {
    ///     if mcp.is_ready().await { http::StatusCode::OK } else { http::StatusCode::SERVICE_UNAVAILABLE }
    /// }
    /// ```
    pub async fn is_ready(&self) -> bool {
        self.endpoint.unready().await.is_none()
    }

    /// Ends every session and every stream of this service and its clones at once, which cancels the calls in flight.
    /// [`graceful_shutdown`](Self::graceful_shutdown) waits for them.
    pub fn close(&self) {
        self.endpoint.close();
    }

    /// Responds to a request. The future of the common case, a POST without `Origin`, is kept small because it is moved
    /// for each request.
    pub(super) fn respond<B: RequestBody>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<B> {
        self.complete(self.prepare(request))
    }

    /// Completes the response to a request whose handling has begun.
    pub(super) fn complete<B: RequestBody>(
        &self,
        prepared: Prepared<B>,
    ) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<B> {
        let endpoint = self.endpoint.clone();
        async move {
            match prepared {
                Prepared::Post(source, body, now) => {
                    Ok(post(&endpoint, source, body, now).await.unwrap_or_else(|rejection| *rejection))
                }
                Prepared::Ready(response) => Ok(*response),
                Prepared::Other(response) => response.await,
            }
        }
    }

    /// Lets a handler respond behind the CORS layer.
    pub(super) fn with_cors<B, R>(&self, request: Request<B>, handle: impl FnMut(Request<B>) -> R) -> ResponseFuture
    where
        R: Future<Output = Result<HttpResponse, Rejection>> + Send + 'static,
    {
        // The layer answers preflight requests itself.
        let (parts, body) = request.into_parts();
        if parts.method == Method::OPTIONS
            && let Err(rejection) = guard::check(&parts, self.endpoint.options())
        {
            return Box::pin(ready(Ok(*rejection)));
        }
        Box::pin(self.cors.layer(Handler(handle)).call(Request::from_parts(parts, body)))
    }

    /// Begins the response to a request, as far as nothing has to be awaited.
    pub(super) fn prepare<B: RequestBody>(&self, request: Request<B>) -> Prepared<B> {
        let endpoint = &self.endpoint;
        if AuthorizationService::serves(endpoint, request.uri().path()) {
            let service = self.authorization_service();
            return Prepared::Other(Box::pin(async move { Ok(service.respond(request).await) }));
        }
        let handle = |request| handle(endpoint.clone(), request);
        if guard::needs_cors(&request) {
            return Prepared::Other(self.with_cors(request, handle));
        }
        if endpoint.authorization().is_some() {
            return Prepared::Other(Handler(handle).call(request));
        }
        let now = Instant::now();
        endpoint.sweep(now);
        let (parts, body) = request.into_parts();
        match guard::check_host(&parts, endpoint.options()) {
            Ok(()) => Prepared::Post(Arc::new(HttpRequestSource::new(parts, endpoint)), body, now),
            Err(rejection) => Prepared::Ready(rejection),
        }
    }
}

/// A request whose handling has begun.
pub(super) enum Prepared<B> {
    /// A POST without `Origin` to a server without authentication.
    Post(Arc<HttpRequestSource>, B, Instant),
    Ready(Box<HttpResponse>),
    Other(ResponseFuture),
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        Box::pin(self.respond(request))
    }
}

/// A function as a service.
struct Handler<F>(F);

impl<B, F, R> Service<Request<B>> for Handler<F>
where
    F: FnMut(Request<B>) -> R,
    R: Future<Output = Result<HttpResponse, Rejection>> + Send + 'static,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let response = (self.0)(request);
        Box::pin(async move { Ok(response.await.unwrap_or_else(|rejection| *rejection)) })
    }
}

async fn handle<B: RequestBody>(endpoint: Endpoint, request: Request<B>) -> Result<HttpResponse, Rejection> {
    let endpoint = &endpoint;
    let (parts, body) = request.into_parts();
    let now = Instant::now();
    endpoint.sweep(now);
    guard::check(&parts, endpoint.options())?;
    let (parts, body, response_headers) = admit(endpoint, parts, body, now).await?;
    let mut response = match parts.method {
        Method::POST => post(endpoint, Arc::new(HttpRequestSource::new(parts, endpoint)), body, now).await,
        Method::GET => routing::get(endpoint, &parts, now).await,
        Method::DELETE => routing::delete(endpoint, &parts, now).await,
        _ => Ok(response::method_not_allowed("GET, POST, DELETE")),
    }
    .unwrap_or_else(|rejection| *rejection);
    response.headers_mut().extend(response_headers);
    Ok(response)
}
