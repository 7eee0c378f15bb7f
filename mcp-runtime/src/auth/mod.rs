//! Who sends a request, and what the sender may do.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

mod access;
#[cfg(feature = "http")]
mod authenticator;
#[cfg(feature = "http")]
mod challenge;
#[cfg(feature = "http")]
mod credentials;
#[cfg(feature = "http")]
mod error;
mod hierarchy;
mod identity;
#[cfg(feature = "http")]
mod identity_from_extensions;
mod principal;
#[cfg(feature = "http")]
mod protected_resource;
#[cfg(feature = "http")]
mod routes;
mod scopes;
#[cfg(feature = "http")]
mod token_file;

pub use identity::Identity;
pub use principal::Principal;
pub use scopes::Scopes;

pub(crate) use self::{access::AccessRules, hierarchy::Hierarchy};

#[cfg(feature = "http")]
pub use self::{
    authenticator::{AuthenticateFuture, Authenticator},
    challenge::Challenge,
    credentials::credentials,
    error::{AuthenticationError, AuthenticationErrorKind},
    identity_from_extensions::IdentityFromExtensions,
    protected_resource::ProtectedResource,
    routes::{AuthorizationRoutes, RouteFuture},
    token_file::TokenFile,
};

#[cfg(feature = "http")]
pub(crate) use self::scopes::OFFLINE_ACCESS;
