//! Who sends a request, and what the sender may do.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

#[cfg(feature = "http")]
mod authenticator;
#[cfg(feature = "http")]
mod challenge;
#[cfg(feature = "http")]
mod error;
mod identity;
mod principal;
#[cfg(feature = "http")]
mod protected_resource;

pub use identity::Identity;
pub use principal::Principal;

#[cfg(feature = "http")]
pub use self::{
    authenticator::{AuthenticateFuture, Authenticator},
    challenge::Challenge,
    error::{AuthenticationError, AuthenticationErrorKind},
    protected_resource::ProtectedResource,
};
