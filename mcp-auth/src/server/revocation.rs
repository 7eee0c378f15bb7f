//! The revocation endpoint.
//!
//! See [RFC 7009](https://www.rfc-editor.org/rfc/rfc7009).

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value};

use super::{
    client::Client,
    grants::{self, RefreshToken},
    inner::Inner,
    oauth_error::OAuthError,
    parameters::Parameters,
    reply,
    seal::Purpose,
};
use crate::{jose::Jws, jwt::KeySource as _};

/// Ends the grant of a refresh or access token. Unknown tokens need no revocation, so they are no errors.
pub(super) async fn revoke(server: &Inner, body: &[u8], headers: &HeaderMap) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let client = server.clients.authenticate(headers, &form).await?;
    let token = form.get("token").ok_or_else(|| OAuthError::new("invalid_request", "`token` is missing"))?;
    if let Some(grant) = grant_of(server, &client, token).await? {
        grants::end(server, &grant).await?;
    }
    Ok(reply::empty(StatusCode::OK))
}

/// Returns the grant of a token that was issued to a client.
async fn grant_of(server: &Inner, client: &Client, token: &str) -> Result<Option<String>, OAuthError> {
    if let Some(RefreshToken { grant, .. }) = server.sealer.open_text(Purpose::RefreshToken, token) {
        let found = grants::get(server, &grant).await?;
        return Ok(found.filter(|(found, _)| found.client == client.id).map(|_| grant));
    }
    let Some(claims) = verified_claims(server, token).await else { return Ok(None) };
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    Ok(text("grant").filter(|_| text("client_id") == Some(&client.id)).map(str::to_owned))
}

async fn verified_claims(server: &Inner, token: &str) -> Option<Map<String, Value>> {
    let token = Jws::parse(token).ok()?;
    server.keys.verify(&token).await.ok()?;
    token.claims().ok()
}
