//! What all requests to an authorization server share, and which endpoint handles a request.

use std::{fmt, net::SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use mcp_runtime::{AuthorizationRoutes, RouteFuture};

use super::{
    authorize, callback,
    clients::Clients,
    cookies::Cookies,
    ended::EndedGrants,
    keys::SigningKeys,
    metadata,
    oauth_error::OAuthError,
    options::Options,
    registration::{self, RegistrationLimit},
    reply, revocation,
    seal::Sealer,
    store::Store,
    token,
    upstream::Upstream,
};
use crate::{audience::Audience, clock::Clock};

/// An authorization server without its resource.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) audience: Audience,
    pub(super) upstream: Upstream,
    pub(super) clients: Clients,
    pub(super) registrations: RegistrationLimit,
    pub(super) keys: std::sync::Arc<SigningKeys>,
    pub(super) ended: EndedGrants,
    pub(super) store: Store,
    pub(super) sealer: Sealer,
    pub(super) cookies: Cookies,
    pub(super) clock: Clock,
}

impl Inner {
    /// Handles a request to an endpoint for browsers, which has pages of this server.
    async fn respond_to_browser(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let (query, headers) = (request.uri().query().unwrap_or_default(), request.headers());
        let is_callback = request.uri().path() == self.options.endpoints.callback;
        match *request.method() {
            Method::GET if is_callback => callback::handle(self, query, headers).await,
            Method::GET => authorize::start(self, query, headers).await,
            Method::POST if !is_callback => authorize::decide(self, request.body(), headers),
            _ if is_callback => reply::method_not_allowed("GET"),
            _ => reply::method_not_allowed("GET, POST"),
        }
    }

    /// Handles a request to an endpoint for clients, which every web page may use: it has no cookies.
    async fn respond_to_client(&self, request: &Request<Bytes>, peer: Option<SocketAddr>) -> Response<Bytes> {
        let path = request.uri().path();
        let is_metadata = metadata::serves(self, path);
        let response = match *request.method() {
            Method::OPTIONS => reply::preflight(),
            Method::GET if is_metadata => metadata::respond(self),
            _ if is_metadata => reply::method_not_allowed("GET, OPTIONS"),
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
        let endpoints = &self.options.endpoints;
        if path == endpoints.token {
            token::issue(self, body, headers).await
        } else if path == endpoints.revocation {
            revocation::revoke(self, body, headers).await
        } else {
            let sender = peer.map(|address| address.ip());
            registration::register(&self.clients, &self.registrations, body, sender).await
        }
    }
}

impl AuthorizationRoutes for Inner {
    fn serves(&self, path: &str) -> bool {
        let endpoints = &self.options.endpoints;
        let own = [&endpoints.authorization, &endpoints.callback, &endpoints.token, &endpoints.revocation];
        own.iter().any(|own| *own == path)
            || (self.options.registration && endpoints.registration == path)
            || metadata::serves(self, path)
    }

    fn respond(&self, request: Request<Bytes>, peer: Option<SocketAddr>) -> RouteFuture<'_> {
        Box::pin(async move {
            let (path, endpoints) = (request.uri().path(), &self.options.endpoints);
            if path == endpoints.authorization || path == endpoints.callback {
                self.respond_to_browser(&request).await
            } else {
                self.respond_to_client(&request, peer).await
            }
        })
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("issuer", &self.options.issuer).finish_non_exhaustive()
    }
}
