//! Proofs of clients that they have the key to which their tokens are bound.
//!
//! See [RFC 9449, 5](https://www.rfc-editor.org/rfc/rfc9449#section-5).

use http::{HeaderValue, Method};
use mcp_runtime::auth::{AuthenticationError, AuthenticationErrorKind};

use super::{client::Client, inner::Inner, oauth_error::OAuthError, parameters::Sender};
use crate::{
    dpop::{DPOP_NONCE, Proof},
    url::SecureUrl,
};

/// Verifies the proof of a request for tokens, without which some clients get none. See [`check`].
pub(super) fn check_for_tokens(
    server: &Inner,
    client: &Client,
    sender: Sender<'_>,
) -> Result<(Option<Proof>, Option<HeaderValue>), OAuthError> {
    let is_required = server.proofs.as_ref().is_some_and(|proofs| proofs.required() || client.is_dpop_bound);
    check(server, &server.options.endpoints.token, is_required, sender)
}

/// Verifies the proof of a request to an endpoint. Returns it with the nonce for the next request, if that needs another one.
/// A proof that is not required may be absent. If the server binds no tokens to keys, it is ignored.
pub(super) fn check(
    server: &Inner,
    path: &str,
    is_required: bool,
    sender: Sender<'_>,
) -> Result<(Option<Proof>, Option<HeaderValue>), OAuthError> {
    let proofs = server.proofs.as_ref().filter(|_| is_required || sender.headers.contains_key("dpop"));
    let Some(proofs) = proofs else { return Ok((None, None)) };
    let url = SecureUrl::parse(&server.options.url(path))?;
    let (proof, next) = proofs.check(sender.headers, &Method::POST, &url).map_err(refused)?;
    Ok((Some(proof), next))
}

/// Remembers the proof of a request of which everything else is valid, so that strangers leave room for clients.
///
/// # Errors
///
/// Returns an error if it was used before, or if it cannot be remembered.
pub(super) async fn remember(server: &Inner, proof: Option<&Proof>, principal: &str) -> Result<(), OAuthError> {
    match proof.zip(server.proofs.as_ref()) {
        Some((proof, proofs)) => proofs.remember(proof, principal).await.map_err(refused),
        None => Ok(()),
    }
}

/// Returns the thumbprint of the key of a proof.
pub(super) fn key(proof: Option<&Proof>) -> Option<&str> {
    proof.map(|proof| proof.thumbprint.as_str())
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn refused(error: AuthenticationError) -> OAuthError {
    if let AuthenticationErrorKind::Unavailable { .. } = error.kind() {
        tracing::warn!(detail = error.detail(), "{}", error.message());
        return OAuthError::unavailable();
    }
    let nonce = error.response_headers().get(DPOP_NONCE).cloned();
    let code = if nonce.is_some() { "use_dpop_nonce" } else { "invalid_dpop_proof" };
    OAuthError { dpop_nonce: nonce, ..OAuthError::new(code, error.message().to_owned()) }
}
