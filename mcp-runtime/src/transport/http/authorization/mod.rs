//! Authentication of requests, and what clients without sufficient credentials are told.
//!
//! An [`Authenticator`] identifies the sender and the engine decides which scopes a request needs. This module turns
//! both into HTTP: statuses, challenges, and the metadata of the protected resource.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

mod admission;
#[allow(clippy::module_inception)]
mod authorization;
mod metadata;
mod refusal;
mod resource_url;
mod routes;

pub(super) use self::{admission::admit, refusal::insufficient_scope};
pub(crate) use authorization::Authorization;
pub use routes::AuthorizationService;
