//! Authentication of requests, and what clients without sufficient credentials are told.
//!
//! An [`Authenticator`] identifies the sender and the engine decides which scopes a request needs. This module turns
//! both into HTTP: statuses, challenges, and the metadata of the protected resource.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

mod admission;
mod refusal;
mod resource_url;
mod routes;

pub(super) use self::{admission::admit, refusal::insufficient_scope};
pub use routes::AuthorizationService;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{HeaderMap, Uri, request::Parts};
use resource_url::{ResourceUrl, issuer_problem};

use crate::auth::{Authenticator, AuthorizationRoutes, Challenge, ProtectedResource};

/// How an endpoint authenticates requests, and what it tells clients.
pub(crate) struct Authorization {
    authenticator: Arc<dyn Authenticator>,
    resource: ProtectedResource,
    routes: Vec<Arc<dyn AuthorizationRoutes>>,
    /// The identifier of the resource, if the author has set it.
    url: Option<ResourceUrl>,
    /// Whether the authenticator could not examine the last request.
    is_unavailable: AtomicBool,
}

impl Authorization {
    /// Prepares the authentication of a server. `name` is its name for people.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with the description of the protected resource.
    pub(crate) fn new(authenticator: Arc<dyn Authenticator>, name: &str) -> Result<Self, Vec<String>> {
        let resource = authenticator.protected_resource().or(ProtectedResource::new().name(name));
        let mut problems = Vec::new();
        let url = resource.identifier().map(ResourceUrl::parse).transpose().unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        problems.extend(resource.authorization_servers().iter().filter_map(|issuer| issuer_problem(issuer)));
        if !problems.is_empty() {
            return Err(problems);
        }
        let routes = authenticator.routes();
        Ok(Self { authenticator, resource, routes, url, is_unavailable: AtomicBool::new(false) })
    }

    /// Returns whether clients reach the resource over TLS, which ends at a proxy.
    pub(crate) fn is_https(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.origin.starts_with("https:"))
    }

    /// Returns whether the authenticator could not examine the last request.
    pub(super) fn is_unavailable(&self) -> bool {
        self.is_unavailable.load(Ordering::Relaxed)
    }

    /// Records whether the authenticator could examine a request.
    fn set_unavailable(&self, is_unavailable: bool) {
        // Reading is cheaper than writing if several threads do it.
        if self.is_unavailable() != is_unavailable {
            self.is_unavailable.store(is_unavailable, Ordering::Relaxed);
        }
    }

    fn authenticator(&self) -> &dyn Authenticator {
        &*self.authenticator
    }

    fn resource(&self) -> &ProtectedResource {
        &self.resource
    }

    /// Returns what the authenticator serves next to the endpoint.
    fn routes(&self) -> &[Arc<dyn AuthorizationRoutes>] {
        &self.routes
    }

    /// Returns the challenges of every response: one for each authentication scheme.
    fn challenges(&self) -> Vec<Challenge> {
        let challenges = self.resource.challenges();
        if challenges.is_empty() { vec![Challenge::new("Bearer")] } else { challenges.to_vec() }
    }

    /// Returns the URL of the metadata. Returns `None` if there is none for the sender of this request. `path` is the
    /// path of the endpoint.
    fn metadata_url(&self, path: &str, request: &Parts) -> Option<String> {
        Some(self.resource_url(path, &request.headers, &request.uri)?.metadata_url())
    }

    /// Returns the identifier of the resource, if clients are told about it.
    fn resource_url(&self, path: &str, headers: &HeaderMap, uri: &Uri) -> Option<ResourceUrl> {
        if self.resource.authorization_servers().is_empty() {
            return None;
        }
        self.url.clone().or_else(|| ResourceUrl::of_loopback(headers, uri, path))
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("resource", &self.resource).finish_non_exhaustive()
    }
}
