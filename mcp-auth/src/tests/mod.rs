//! Tests of the authenticators with keys and an issuer of their own.

mod any_of;
mod api_keys;
#[cfg(feature = "server")]
pub(crate) mod authorization_server;
mod dpop;
mod introspection;
mod issuer;
mod jwt;
mod keys;
mod log;
#[cfg(feature = "server")]
mod second_order;
mod server;
mod signer;

use http::{Request, header::AUTHORIZATION, request::Parts};
use mcp_runtime::auth::{AuthenticationError, AuthenticationErrorKind, Authenticator, Identity};

use self::{issuer::TestIssuer, signer::Signer};

const RESOURCE: &str = "https://mcp.example.com/mcp";

/// Returns the head of a request with these headers.
fn request(headers: &[(&str, &str)]) -> Parts {
    let request = Request::post("http://127.0.0.1:3000/mcp");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).expect("the headers are valid").into_parts().0
}

/// The identity that an authenticator returned.
#[derive(Debug)]
struct Accepted(Identity);

impl std::ops::Deref for Accepted {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.0
    }
}

/// Authenticates a request with these headers.
async fn with_headers(
    authenticator: &impl Authenticator,
    headers: &[(&str, &str)],
) -> Result<Accepted, AuthenticationError> {
    authenticator.authenticate(&request(headers)).await.map(Accepted)
}

/// Authenticates a request with this `Authorization` header.
async fn authenticate(
    authenticator: &impl Authenticator,
    authorization: &str,
) -> Result<Accepted, AuthenticationError> {
    with_headers(authenticator, &[(AUTHORIZATION.as_str(), authorization)]).await
}

/// Authenticates a request with a bearer token.
async fn bearer(authenticator: &impl Authenticator, token: &str) -> Result<Accepted, AuthenticationError> {
    authenticate(authenticator, &format!("Bearer {token}")).await
}

/// Returns the kind, the message for the client, and the detail for the log.
fn refusal(error: &AuthenticationError) -> (AuthenticationErrorKind, &str, Option<&str>) {
    (error.kind(), error.message(), error.detail())
}
