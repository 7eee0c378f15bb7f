//! Which endpoint handles a request.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use mcp_runtime::auth::{AuthorizationRoutes, RouteFuture};

use super::{
    authorize, callback, inner::Inner, metadata, oauth_error::OAuthError, registration, reply, revocation, token,
};

/// The endpoints of an authorization server.
#[derive(Debug)]
pub(super) struct Routes(pub(super) Arc<Inner>);

impl Routes {
    /// Handles a request to an endpoint for browsers, which has pages of this server.
    async fn respond_to_browser(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let (query, headers) = (request.uri().query().unwrap_or_default(), request.headers());
        let is_callback = request.uri().path() == self.0.options.endpoints.callback;
        match *request.method() {
            // It would use up the code of the provider.
            Method::HEAD if is_callback => reply::method_not_allowed("GET"),
            Method::GET if is_callback => callback::handle(&self.0, query, headers).await,
            Method::GET | Method::HEAD => authorize::start(&self.0, query, headers).await,
            Method::POST if !is_callback => authorize::decide(&self.0, request.body(), headers),
            _ if is_callback => reply::method_not_allowed("GET"),
            _ => reply::method_not_allowed("GET, HEAD, POST"),
        }
    }

    /// Handles a request to an endpoint for clients, which every web page may use: it has no cookies.
    async fn respond_to_client(&self, request: &Request<Bytes>, peer: Option<SocketAddr>) -> Response<Bytes> {
        let path = request.uri().path();
        let is_metadata = metadata::serves(&self.0, path);
        let response = match *request.method() {
            Method::OPTIONS => reply::preflight(),
            Method::GET | Method::HEAD if is_metadata => metadata::respond(&self.0),
            _ if is_metadata => reply::method_not_allowed("GET, HEAD, OPTIONS"),
            Method::POST => {
                let response = self.post(path, request.headers(), request.body(), peer).await;
                response.unwrap_or_else(|error| error.response())
            }
            _ => reply::method_not_allowed("POST, OPTIONS"),
        };
        reply::for_every_origin(response)
    }

    async fn post(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
        peer: Option<SocketAddr>,
    ) -> Result<Response<Bytes>, OAuthError> {
        let endpoints = &self.0.options.endpoints;
        if path == endpoints.token {
            token::issue(&self.0, body, headers).await
        } else if path == endpoints.revocation {
            revocation::revoke(&self.0, body, headers).await
        } else {
            let sender = peer.map(|address| address.ip());
            registration::register(&self.0.clients, headers, body, sender).await
        }
    }
}

impl AuthorizationRoutes for Routes {
    fn serves(&self, path: &str) -> bool {
        let endpoints = &self.0.options.endpoints;
        let own = [&endpoints.authorization, &endpoints.callback, &endpoints.token, &endpoints.revocation];
        own.iter().any(|own| *own == path)
            || (self.0.options.registration && endpoints.registration == path)
            || metadata::serves(&self.0, path)
    }

    fn respond(&self, request: Request<Bytes>, peer: Option<SocketAddr>) -> RouteFuture<'_> {
        Box::pin(async move {
            if let Err(error) = self.0.clock.follow(self.0.store.records()).await {
                tracing::debug!(%error, "the clock of the store cannot be read");
            }
            let (path, endpoints) = (request.uri().path(), &self.0.options.endpoints);
            if path == endpoints.authorization || path == endpoints.callback {
                self.respond_to_browser(&request).await
            } else {
                self.respond_to_client(&request, peer).await
            }
        })
    }
}
