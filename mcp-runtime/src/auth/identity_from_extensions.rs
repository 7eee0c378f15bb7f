use http::request::Parts;

use super::{
    authenticator::{AuthenticateFuture, Authenticator},
    error::AuthenticationError,
    identity::Identity,
    principal::Principal,
    protected_resource::ProtectedResource,
};

/// An [`Authenticator`] for servers behind the author's own middleware, which has identified the sender and inserted an
/// [`Identity`] or a [`Principal`] into the extensions of the request. A request without either is rejected with status
/// 401.
///
/// ```
/// use mcp_runtime::{IdentityFromExtensions, ProtectedResource, Server};
///
/// let resource = ProtectedResource::new()
///     .resource("https://mcp.example.com/mcp")
///     .authorization_server("https://id.example.com");
/// let server = Server::empty("notes", "1.0.0").authenticate(IdentityFromExtensions::new(resource));
/// ```
#[derive(Debug, Clone, Default)]
pub struct IdentityFromExtensions {
    resource: ProtectedResource,
}

impl IdentityFromExtensions {
    /// Creates an authenticator for a resource, about which clients without credentials are told.
    pub fn new(resource: ProtectedResource) -> Self {
        Self { resource }
    }
}

impl Authenticator for IdentityFromExtensions {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        let identity = request.extensions.get::<Identity>().cloned();
        let identity = identity.or_else(|| request.extensions.get::<Principal>().cloned().map(Identity::new));
        Box::pin(async move { identity.ok_or_else(AuthenticationError::missing) })
    }

    fn protected_resource(&self) -> ProtectedResource {
        self.resource.clone()
    }
}
