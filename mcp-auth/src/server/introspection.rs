//! The introspection endpoint, at which clients ask about their own tokens.
//!
//! See [RFC 7662](https://www.rfc-editor.org/rfc/rfc7662).

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_runtime::backend::BackendError;
use serde_json::{Value, json};

use super::{
    client::{Authentication, Client},
    grants::{self, RefreshToken},
    inner::Inner,
    oauth_error::OAuthError,
    parameters::{Parameters, Sender},
    reply,
    revocation::verified_claims,
    seal::Purpose,
};

/// The claims of an access token that a response repeats.
const CLAIMS: [&str; 8] = ["iss", "sub", "aud", "client_id", "scope", "iat", "exp", "jti"];

/// Describes a token of the client. Tokens of other clients are not distinguished from invented ones.
pub(super) async fn introspect(server: &Inner, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let client = server.clients.authenticate(sender, &form).await?;
    if client.authentication == Authentication::None {
        return Err(OAuthError::invalid_client("the client has no credentials").of_client(&client.id));
    }
    let missing = || OAuthError::new("invalid_request", "`token` is missing").of_client(&client.id);
    let token = form.get("token").ok_or_else(missing)?;
    let description = describe(server, &client, token).await?.unwrap_or_else(|| json!({"active": false}));
    Ok(reply::json(StatusCode::OK, &description))
}

/// Returns `None` unless the token is valid and was issued to the client.
async fn describe(server: &Inner, client: &Client, token: &str) -> Result<Option<Value>, BackendError> {
    let now = server.clock.unix();
    if let Some(token) = server.sealer.open_text::<RefreshToken>(Purpose::RefreshToken, token) {
        let found = grants::get(server, &token.grant).await?.map(|(grant, _)| grant);
        let found = found.filter(|grant| {
            grant.client == client.id && grant.generation == token.generation && !grant.has_expired(server, now)
        });
        return Ok(found.map(|grant| {
            let expires = now + grants::lifetime(server, &grant).as_secs_f64();
            let mut description = json!({
                "active": true, "iss": server.options.issuer, "sub": grant.subject, "client_id": grant.client,
                "exp": expires as u64,
            });
            if let Some(scope) = grants::scope(&grant.scopes) {
                description["scope"] = json!(scope);
            }
            description
        }));
    }
    let Some(claims) = verified_claims(server, token).await else { return Ok(None) };
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let has_ended = grants::BINDINGS.into_iter().filter_map(text).any(|id| server.ended.contains(id));
    let is_valid = claims.get("exp").and_then(Value::as_f64).is_some_and(|expires| now < expires) && !has_ended;
    if text("client_id") != Some(&client.id) || !is_valid {
        return Ok(None);
    }
    let mut description = json!({"active": true, "token_type": "Bearer"});
    if let Some(confirmation) = claims.get("cnf") {
        description["token_type"] = json!("DPoP");
        description["cnf"] = confirmation.clone();
    }
    for name in CLAIMS {
        if let Some(claim) = claims.get(name) {
            description[name] = claim.clone();
        }
    }
    Ok(Some(description))
}
