//! Who sends a request, and what the sender may do.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

#[cfg(feature = "http")]
mod authenticator;
#[cfg(feature = "http")]
mod challenge;
#[cfg(feature = "http")]
mod error;
mod hierarchy;
mod identity;
#[cfg(feature = "http")]
mod protected_resource;
mod scopes;
#[cfg(feature = "http")]
mod token_file;

pub(crate) use self::hierarchy::{AccessRules, Hierarchy};
pub use identity::{Identity, Principal};
pub use scopes::Scopes;

#[cfg(feature = "http")]
pub use self::{
    authenticator::{
        AuthenticateFuture, Authenticator, AuthorizationRoutes, IdentityFromExtensions, RouteFuture, credentials,
    },
    challenge::Challenge,
    error::{AuthenticationError, AuthenticationErrorKind},
    protected_resource::ProtectedResource,
    token_file::TokenFile,
};

#[cfg(feature = "http")]
pub(crate) use self::scopes::OFFLINE_ACCESS;
