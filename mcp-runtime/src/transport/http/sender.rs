//! The sender of a request, as a middleware or the server's authenticator has identified it.

use http::request::Parts;

use crate::auth::{Identity, Principal};

/// Returns the identity of the sender.
pub(super) fn identity(request: &Parts) -> Option<&Identity> {
    request.extensions.get()
}

/// Returns the name of the sender's principal.
pub(super) fn principal(request: &Parts) -> Option<&str> {
    let principal = identity(request).map_or_else(|| request.extensions.get(), |identity| Some(identity.principal()));
    principal.map(Principal::as_str)
}
