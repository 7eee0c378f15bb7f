//! Which endpoint handles a request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use mcp_runtime::auth::{AuthorizationRoutes, RouteFuture};

use super::{
    account, authorize, callback, inner::Inner, introspection, logout, metadata, oauth_error::OAuthError,
    parameters::Sender, registration, reply, revocation, token,
};

/// The endpoints of an authorization server.
#[derive(Debug)]
pub(super) struct Routes(pub(super) Arc<Inner>);

impl Routes {
    /// Handles a request to an endpoint for browsers, which has pages of this server.
    async fn respond_to_browser(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let (query, sender) = (request.uri().query().unwrap_or_default(), Sender::of(request));
        let is_callback = request.uri().path() == self.0.options.endpoints.callback;
        match *request.method() {
            // It would use up the code of the provider, or a pushed request.
            Method::HEAD if is_callback || names_pushed_request(query) => reply::method_not_allowed("GET"),
            Method::GET if is_callback => callback::handle(&self.0, query, sender).await,
            Method::GET | Method::HEAD => authorize::start(&self.0, query, sender).await,
            Method::POST if !is_callback => match authorize::form(&self.0, request.body(), sender) {
                Ok(form) => match form.get("response") {
                    Some(sealed) => callback::confirm(&self.0, sealed, &form, sender).await,
                    None => authorize::decide(&self.0, &form, sender).await,
                },
                Err(response) => *response,
            },
            _ if is_callback => reply::method_not_allowed("GET"),
            _ => reply::method_not_allowed("GET, HEAD, POST"),
        }
    }

    /// Handles a request to the page of a user.
    async fn respond_with_account(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let sender = Sender::of(request);
        match *request.method() {
            Method::GET => account::start(&self.0, sender),
            Method::POST => account::change(&self.0, request.body(), sender).await,
            _ => reply::method_not_allowed("GET, POST"),
        }
    }

    /// Handles a request to an endpoint for clients, which every web page may use: it has no cookies.
    async fn respond_to_client(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        let is_metadata = metadata::serves(&self.0, path);
        let response = match *request.method() {
            Method::OPTIONS => reply::preflight(),
            Method::GET | Method::HEAD if is_metadata => metadata::respond(&self.0),
            _ if is_metadata => reply::method_not_allowed("GET, HEAD, OPTIONS"),
            Method::POST => {
                let sender = Sender::of(request);
                self.post(path, request.body(), sender).await.unwrap_or_else(|error| {
                    error.record(sender.peer);
                    error.response()
                })
            }
            _ => reply::method_not_allowed("POST, OPTIONS"),
        };
        reply::for_every_origin(response)
    }

    async fn post(&self, path: &str, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
        let endpoints = &self.0.options.endpoints;
        if path == endpoints.token {
            token::issue(&self.0, body, sender).await
        } else if path == endpoints.revocation {
            revocation::revoke(&self.0, body, sender).await
        } else if path == endpoints.introspection {
            introspection::introspect(&self.0, body, sender).await
        } else if path == endpoints.pushed_authorization {
            authorize::push(&self.0, body, sender).await
        } else if path == endpoints.backchannel_logout {
            logout::handle(&self.0, body, sender).await
        } else {
            registration::register(&self.0, body, sender).await
        }
    }
}

fn names_pushed_request(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "request_uri")
}

impl AuthorizationRoutes for Routes {
    fn serves(&self, path: &str) -> bool {
        let endpoints = &self.0.options.endpoints;
        let is_served = |own: &&String| {
            (self.0.options.registration || **own != endpoints.registration)
                && (self.0.upstream.has_issuer() || **own != endpoints.backchannel_logout)
        };
        endpoints.all().into_iter().filter(is_served).any(|own| own == path) || metadata::serves(&self.0, path)
    }

    fn respond(&self, request: Request<Bytes>) -> RouteFuture<'_> {
        Box::pin(async move {
            if let Err(error) = self.0.clock.follow(self.0.store.records()).await {
                tracing::debug!(%error, "the clock of the store cannot be read");
            }
            self.0.ended.follow().await;
            let (path, endpoints) = (request.uri().path(), &self.0.options.endpoints);
            if path == endpoints.account {
                self.respond_with_account(&request).await
            } else if path == endpoints.authorization || path == endpoints.callback {
                self.respond_to_browser(&request).await
            } else {
                self.respond_to_client(&request).await
            }
        })
    }
}
