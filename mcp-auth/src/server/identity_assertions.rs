//! Identity assertions of the provider (ID-JAG), for which clients get access tokens without a login here.
//!
//! See [Enterprise-managed authorization](https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization).

use mcp_runtime::auth::{AuthenticationError, AuthenticationErrorKind};
use serde_json::{Map, Value};

use super::{
    audit::Event,
    client::{Authentication, Client},
    codes::is_user,
    grants::{self, narrowed},
    inner::Inner,
    oauth_error::OAuthError,
    parameters::Parameters,
    proofs, users,
};
use crate::{audience::Audience, dpop::Proof, jose::Jws, shares::Peer};

pub(super) const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The profile of this grant type in the metadata.
///
/// See [Identity Assertion JWT Authorization Grant](https://datatracker.ietf.org/doc/draft-ietf-oauth-identity-assertion-authz-grant/).
pub(super) const PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// The type of the tokens.
const TOKEN_TYPE: &str = "oauth-id-jag+jwt";

/// The maximum time until an assertion expires, and the tolerated clock difference between provider and server, in seconds.
const MAX_LIFETIME: f64 = 60.0 * 60.0;
const LEEWAY: f64 = 60.0;

/// Exchanges an assertion for an access token. Returns it with its scopes.
pub(super) async fn exchange(
    server: &Inner,
    client: &Client,
    form: &Parameters<'_>,
    proof: Option<&Proof>,
    peer: Peer,
) -> Result<(String, Vec<String>), OAuthError> {
    // Without credentials of the client, a stolen assertion would be enough.
    if client.authentication == Authentication::None {
        return Err(OAuthError::new("unauthorized_client", "the client has no credentials"));
    }
    let text = form.get("assertion").ok_or_else(|| OAuthError::new("invalid_request", "`assertion` is missing"))?;
    let claims = verify(server, client, text).await?;
    let subject = server.upstream.subject_of(&claims).filter(|subject| is_user(subject));
    let subject = subject.ok_or_else(|| invalid("it names no user"))?;
    let issued = claims.get("iat").and_then(Value::as_f64).ok_or_else(|| invalid("it has no `iat`"))?;
    if !server.options.admits(&Value::Object(claims.clone())) {
        return Err(invalid("the user may not use this server"));
    }
    let scopes = server.options.grantable_scopes(claims.get("scope").and_then(Value::as_str))?;
    let scopes = narrowed(&scopes, form.get("scope"))?;
    proofs::remember(server, proof, &subject).await?;
    // The clock of the provider may be ahead.
    let id = users::assertions(server, &subject, issued - LEEWAY).await?;
    let id =
        id.ok_or_else(|| invalid("the grants of the user were ended after it was issued, or in the minute before"))?;
    let (copied, bound) = (server.options.copied_claims(&claims), (grants::ASSERTIONS, id.as_str()));
    let key = proofs::key(proof);
    let token = grants::access_token(server, &subject, client, &scopes, &copied, Some(bound), key).await?;
    Event::new("issuance", peer).principal(&server.options.issuer, &subject).client(client.id.as_str()).record();
    Ok((token, scopes))
}

/// Verifies that the provider has signed an assertion for this server and client. Returns its claims.
async fn verify(server: &Inner, client: &Client, text: &str) -> Result<Map<String, Value>, OAuthError> {
    let token = Jws::parse(text).map_err(invalid)?;
    if token.kind().as_deref() != Some(TOKEN_TYPE) {
        return Err(invalid("it is a token for another purpose"));
    }
    let refused = |error: AuthenticationError| match error.kind() {
        AuthenticationErrorKind::Unavailable { .. } => OAuthError::unavailable(),
        _ => invalid(error.message()),
    };
    let audience = Audience::new(server.options.issuer.clone());
    let claims = server.upstream.verify(&token, Some(&audience)).await.map_err(refused)?;
    if claims.get("aud").and_then(Value::as_array).is_some_and(|audiences| audiences.len() > 1) {
        return Err(invalid("it is for several servers"));
    }
    server.audience.check(claims.get("resource")).map_err(|_| invalid("it is for another resource"))?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("client_id") != client.id {
        return Err(invalid("it was issued to another client"));
    }
    if text("jti").is_empty() {
        return Err(invalid("it has no `jti`"));
    }
    // Even if another claim identifies users.
    if text("sub").is_empty() {
        return Err(invalid("it has no `sub`"));
    }
    // An assertion from the future would survive the end of all access.
    if claims.get("iat").and_then(Value::as_f64).is_some_and(|issued| issued > server.clock.unix() + LEEWAY) {
        return Err(invalid("it was issued in the future"));
    }
    let latest = server.clock.unix() + MAX_LIFETIME + LEEWAY;
    if claims.get("exp").and_then(Value::as_f64).is_none_or(|expires| expires > latest) {
        return Err(invalid("it expires later than in an hour"));
    }
    if claims.get("scope").is_some_and(|scope| !scope.is_string()) {
        return Err(invalid("`scope` is not a string"));
    }
    if claims.contains_key("cnf") {
        return Err(invalid("it is bound to a key, which this server cannot verify"));
    }
    if claims.contains_key("authorization_details") {
        return Err(invalid("`authorization_details` are not supported"));
    }
    Ok(claims)
}

fn invalid(why: &str) -> OAuthError {
    OAuthError::new("invalid_grant", format!("the assertion is not accepted: {why}"))
}
