//! Authentication of requests, and what clients without sufficient credentials are told.
//!
//! An [`Authenticator`] identifies the sender and the engine decides which scopes a request needs. This module turns
//! both into HTTP: statuses, challenges, and the metadata of the protected resource.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

mod admission;
mod metadata;
mod refusal;
mod resource_url;

use std::{fmt, sync::Arc};

use crate::auth::{Authenticator, ProtectedResource};

use self::resource_url::ResourceUrl;
pub(super) use self::{admission::admit, refusal::insufficient_scope};
pub use metadata::MetadataService;

/// How an endpoint authenticates requests, and what it tells clients.
pub(crate) struct Authorization {
    authenticator: Arc<dyn Authenticator>,
    resource: ProtectedResource,
    /// The identifier of the resource, if the author has set it.
    url: Option<ResourceUrl>,
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
        problems
            .extend(resource.authorization_servers().iter().filter_map(|issuer| resource_url::issuer_problem(issuer)));
        if problems.is_empty() { Ok(Self { authenticator, resource, url }) } else { Err(problems) }
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("resource", &self.resource).finish_non_exhaustive()
    }
}
