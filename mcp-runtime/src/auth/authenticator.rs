use std::{pin::Pin, sync::Arc};

use http::request::Parts;

use super::{
    error::AuthenticationError, identity::Identity, protected_resource::ProtectedResource, routes::AuthorizationRoutes,
};

/// The future of [`Authenticator::authenticate`].
pub type AuthenticateFuture<'a> = Pin<Box<dyn Future<Output = Result<Identity, AuthenticationError>> + Send + 'a>>;

/// Identifies the sender of an HTTP request by its credentials.
///
/// An authenticator only identifies. Everything that follows is done by the runtime, the same for every authenticator:
/// the responses 401 and 403 with their challenges, the metadata of the protected resource, and the decision whether
/// the sender may call a function.
///
/// The runtime rejects a request with two `Authorization` headers, or with an access token in its query, before the
/// authenticator sees it.
///
/// ```
/// use mcp_runtime::{AuthenticateFuture, AuthenticationError, Authenticator, Identity};
///
/// /// Trusts the name in the client certificate, which the proxy has verified.
/// struct ClientCertificate;
///
/// impl Authenticator for ClientCertificate {
///     fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
///         Box::pin(async move {
///             let name = request.headers.get("x-client-cert-subject").ok_or_else(AuthenticationError::missing)?;
///             let name = name.to_str().map_err(|_| AuthenticationError::invalid("the subject is not ASCII"))?;
///             Ok(Identity::new(name).with_scopes(["notes:read"]))
///         })
///     }
/// }
/// ```
///
/// See [Access token usage](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage).
pub trait Authenticator: Send + Sync + 'static {
    /// Identifies the sender of a request from its head: method, URI, headers, and the values in its extensions.
    ///
    /// It is called once for each request, before the body is read, and never for CORS preflight requests and requests
    /// for metadata. Requests are authenticated concurrently. Dropping the future must be safe: it happens when the
    /// client disconnects.
    ///
    /// The credentials must be intended for this server. For access tokens, that is the audience: a token that was
    /// issued for another resource is [invalid](AuthenticationError::invalid).
    ///
    /// # Errors
    ///
    /// Returns why the sender could not be identified, which decides the response.
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a>;

    /// Returns what clients are told about the resource: its identifier, and who issues tokens for it. It is called
    /// once, when the server is built.
    fn protected_resource(&self) -> ProtectedResource {
        ProtectedResource::new()
    }

    /// Returns the routes that are served next to the MCP endpoint, by an authorization server in the same process. It
    /// is called once, when the server is built.
    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        Vec::new()
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        (**self).authenticate(request)
    }

    fn protected_resource(&self) -> ProtectedResource {
        (**self).protected_resource()
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        (**self).routes()
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Box<A> {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        (**self).authenticate(request)
    }

    fn protected_resource(&self) -> ProtectedResource {
        (**self).protected_resource()
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        (**self).routes()
    }
}
