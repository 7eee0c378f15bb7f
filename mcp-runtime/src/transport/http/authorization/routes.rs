//! The routes of an authenticator, which are served next to the endpoint.

use std::{
    convert::Infallible,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::resource_url;
use crate::{
    auth::AuthorizationRoutes,
    handler::RequestHead as _,
    transport::http::{
        endpoint::Endpoint,
        guard, request_body,
        response::HttpBody,
        response::{self, HttpResponse},
    },
};

/// The maximum size of a request body in bytes.
const MAX_BODY: usize = 64 << 10;

/// The maximum time for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What an [`HttpService`](crate::HttpService) serves outside of its path because of authorization: the metadata of the
/// protected resource, and the [routes](crate::AuthorizationRoutes) of the authenticator. Other paths are answered with
/// status 404.
///
/// A mounted service sees only requests below its own path, but clients look for these at the root of the host.
///
/// ```no_run
/// # use mcp_runtime::{HttpOptions, Server};
/// # fn mount(server: Server) -> Result<axum::Router, mcp_runtime::BuildError> {
/// let mcp = server.build()?.into_http_service(HttpOptions::default());
/// Ok(axum::Router::new().fallback_service(mcp.authorization_service()).nest_service("/mcp", mcp))
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AuthorizationService {
    endpoint: Endpoint,
}

impl AuthorizationService {
    pub(in crate::transport::http) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Returns whether an endpoint serves a path because of authorization.
    pub(in crate::transport::http) fn serves(endpoint: &Endpoint, path: &str) -> bool {
        resource_url::serves(path) || route(endpoint, path).is_some()
    }

    pub(in crate::transport::http) async fn respond<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        match route(&self.endpoint, path) {
            Some(routes) => self.call_route(Arc::clone(routes), request).await,
            None if resource_url::serves(path) => resource_url::respond(&self.endpoint, &request),
            None => response::invalid_request(http::StatusCode::NOT_FOUND, "path not found"),
        }
    }

    async fn call_route<B>(&self, routes: Arc<dyn AuthorizationRoutes>, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if let Err(rejection) = guard::check_host(&parts, self.endpoint.options()) {
            return *rejection;
        }
        let source = self.endpoint.request_source(parts.clone());
        let received = request_body::read_up_to(MAX_BODY, &self.endpoint, &source, body, Instant::now()).await;
        let received = match received {
            Ok(received) => received,
            Err(rejection) => return *rejection,
        };
        let Some(permit) = self.endpoint.limits().admit_authorization_request(source.peer()) else {
            return response::overloaded("too many requests for authorization are being handled");
        };
        let request = Request::from_parts(parts, Bytes::copy_from_slice(received.bytes()));
        // If the client disconnects, the request is handled to its end: a token that was replaced must be stored.
        let handled = tokio::spawn(async move {
            let _permit = permit;
            guarded(|| routes.respond(request, source.peer_addr())).await
        });
        match handled.await.ok().flatten() {
            Some(response) => response.map(HttpBody::complete),
            None => response::overloaded("the request could not be handled"),
        }
    }
}

fn route<'a>(endpoint: &'a Endpoint, path: &str) -> Option<&'a Arc<dyn AuthorizationRoutes>> {
    endpoint.authorization()?.routes().iter().find(|routes| routes.serves(path))
}

/// Calls a route. Returns `None` if it panics or takes too long.
async fn guarded<'a>(call: impl FnOnce() -> crate::auth::RouteFuture<'a>) -> Option<Response<Bytes>> {
    let panicked = || {
        tracing::error!("a route of the authenticator panicked");
        None
    };
    let Ok(mut running) = catch_unwind(AssertUnwindSafe(call)) else { return panicked() };
    let guarded = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
        Ok(response) => response.map(Some),
        Err(_) => Poll::Ready(panicked()),
    });
    tokio::time::timeout(TIMEOUT, guarded).await.unwrap_or_default()
}

impl<B> Service<Request<B>> for AuthorizationService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}
