//! The routes of an authenticator, and the metadata of the protected resource, by which clients find out who issues tokens
//! for it.
//!
//! See [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728).

use std::{
    collections::BTreeSet,
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::Body;
use serde_json::{Map, Value, json};
use tower_service::Service;

use super::WELL_KNOWN;
use crate::{
    auth::{AuthorizationRoutes, OFFLINE_ACCESS, PeerAddr, ProtectedResource, RequestHead as _},
    engine::Engine,
    stdx::until_panic,
    transport::http::{
        endpoint::Endpoint,
        guard,
        request::HttpRequestSource,
        request_body::{self, RequestBody},
        response::{self, HttpBody, HttpResponse, Rejection},
    },
};

/// The maximum size of a request body in bytes.
const MAX_BODY: usize = 64 << 10;

/// The maximum time for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The part of an [`HttpService`](crate::http::HttpService) outside of its path that authorization needs: the metadata of the
/// protected resource, and the [routes](crate::auth::AuthorizationRoutes) of the authenticator. Other paths are answered with
/// status 404.
///
/// A mounted service sees only requests below its own path, but clients look for these at the root of the host.
///
/// ```no_run
/// # use mcp_runtime::{HttpOptions, Server};
/// # fn mount(server: Server) -> Result<axum::Router, mcp_runtime::BuildError> {
/// let mcp = server.build()?.into_http_service(HttpOptions::default())?;
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
        serves_metadata(path) || route(endpoint, path).is_some()
    }

    pub(in crate::transport::http) async fn respond<B: RequestBody>(&self, request: Request<B>) -> HttpResponse {
        let path = request.uri().path();
        match route(&self.endpoint, path) {
            Some(routes) => self.call_route(Arc::clone(routes), request).await.unwrap_or_else(|rejection| *rejection),
            None if serves_metadata(path) => respond_metadata(&self.endpoint, &request),
            None => response::invalid_request(http::StatusCode::NOT_FOUND, "path not found"),
        }
    }

    async fn call_route<B: RequestBody>(
        &self,
        routes: Arc<dyn AuthorizationRoutes>,
        request: Request<B>,
    ) -> Result<HttpResponse, Rejection> {
        let (mut parts, body) = request.into_parts();
        guard::check_host(&parts, self.endpoint.options())?;
        let source = HttpRequestSource::new(parts.clone(), &self.endpoint);
        if let Some(address) = source.peer_addr() {
            parts.extensions.insert(PeerAddr(address));
        }
        let received = request_body::read(&self.endpoint, &source, body, MAX_BODY, Instant::now()).await?;
        let Some(permit) = self.endpoint.limits().authorization_requests.try_acquire(source.peer(), 1) else {
            return Ok(response::overloaded("too many requests for authorization are being handled"));
        };
        let request = Request::from_parts(parts, Bytes::copy_from_slice(received.bytes()));
        // If the client disconnects, the request is handled to its end: a token that was replaced must be stored.
        let handled = tokio::spawn(async move {
            let _permit = permit;
            // `respond` itself may panic, too.
            let response = pin!(async { routes.respond(request).await });
            let response = tokio::time::timeout(TIMEOUT, until_panic(response)).await.ok()?;
            response.inspect_err(|_| tracing::error!("a route of the authenticator panicked")).ok()
        });
        Ok(match handled.await.ok().flatten() {
            Some(response) => response.map(HttpBody::complete),
            None => response::overloaded("the request could not be handled"),
        })
    }
}

fn route<'a>(endpoint: &'a Endpoint, path: &str) -> Option<&'a Arc<dyn AuthorizationRoutes>> {
    endpoint.authorization()?.routes.iter().find(|routes| routes.serves(path))
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

/// Returns whether a path belongs to the metadata of some resource.
fn serves_metadata(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Responds to a request for metadata. Every web page may read it, since it is public.
fn respond_metadata<B>(endpoint: &Endpoint, request: &Request<B>) -> HttpResponse {
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => metadata(endpoint, request.uri(), request.headers()),
        Method::OPTIONS => preflight(),
        _ => response::method_not_allowed("GET, HEAD, OPTIONS"),
    };
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    response
}

fn metadata(endpoint: &Endpoint, uri: &Uri, headers: &HeaderMap) -> HttpResponse {
    let not_found = || response::invalid_request(StatusCode::NOT_FOUND, "no metadata of a protected resource here");
    let Some(authorization) = endpoint.authorization() else { return not_found() };
    let path = &endpoint.options().path;
    let Some(resource) = authorization.resource_url(endpoint.scheme(), path, headers, uri) else { return not_found() };
    let asked = uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default().trim_end_matches('/');
    let own = [resource.path.split('?').next().unwrap_or_default(), path.as_str()];
    if !asked.is_empty() && !own.iter().any(|own| own.trim_end_matches('/') == asked) {
        return not_found();
    }
    let metadata = describe(&authorization.resource, &resource.text, endpoint.engine());
    let mut response = response::json(StatusCode::OK, metadata.to_string());
    response::set(&mut response, header::CACHE_CONTROL, "public, max-age=300");
    response
}

/// Responds to a CORS preflight request: browsers send one if the client adds a header such as `MCP-Protocol-Version`.
fn preflight() -> HttpResponse {
    let mut response = response::empty(StatusCode::NO_CONTENT);
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD");
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_HEADERS, "*, mcp-protocol-version");
    response.headers_mut().insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(3600));
    response
}

/// Returns the metadata of the resource with this identifier.
fn describe(resource: &ProtectedResource, identifier: &str, engine: &Engine) -> Value {
    let mut metadata: Map<_, _> = resource.members().clone().into_iter().collect();
    // It has its own method.
    metadata.remove("scopes_supported");
    metadata.insert("resource".to_owned(), json!(identifier));
    metadata.insert("authorization_servers".to_owned(), json!(resource.authorization_servers()));
    let scopes = resource.supported_scopes().map_or_else(|| required_scopes(engine), <[_]>::to_vec);
    let scopes: Vec<_> = scopes.into_iter().filter(|scope| scope != OFFLINE_ACCESS).collect();
    // Empty lists are omitted.
    if !scopes.is_empty() {
        metadata.insert("scopes_supported".to_owned(), json!(scopes));
    }
    let takes_bearer_tokens = resource.challenges().is_empty()
        || resource.challenges().iter().any(|challenge| challenge.scheme().eq_ignore_ascii_case("bearer"));
    let methods: &[&str] = if takes_bearer_tokens { &["header"] } else { &[] };
    metadata.entry("bearer_methods_supported").or_insert_with(|| json!(methods));
    Value::Object(metadata)
}

/// Returns every scope that requests or functions of a server require, sorted.
fn required_scopes(engine: &Engine) -> Vec<String> {
    let registry = engine.registry();
    let functions = registry.functions().filter_map(|(function, _)| function.scopes.as_ref());
    let names = functions.chain([&engine.profile.access.base]).flat_map(|scopes| scopes.names());
    names.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}
