//! Authentication and authorization: the identity of a caller, its scopes, and the authenticators that verify it.
//!
//! [`Server::authenticate`](crate::Server::authenticate) adds an authenticator to a server. The guide explains them in
//! [Authorization](crate::guide::authorization).
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

#[cfg(feature = "http")]
mod authenticator;
mod identity;
#[cfg(feature = "http")]
mod protected_resource;
mod request_head;
mod scopes;
#[cfg(feature = "http")]
mod token_file;

pub use identity::{Identity, Principal};
pub(crate) use request_head::RequestHead;
pub use scopes::Scopes;
pub(crate) use scopes::{AccessRules, OFFLINE_ACCESS};

#[cfg(feature = "http")]
pub use self::{
    authenticator::{
        AuthenticateFuture, AuthenticationError, AuthenticationErrorKind, Authenticator, AuthorizationRoutes,
        IdentityFromExtensions, PeerAddr, RouteFuture, credentials,
    },
    protected_resource::{Challenge, ProtectedResource},
    token_file::TokenFile,
};
