//! The revocation endpoint.
//!
//! See [RFC 7009](https://www.rfc-editor.org/rfc/rfc7009).

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value};

use super::{
    audit::Event,
    client::Client,
    codes::MACHINE,
    grants::{self, RefreshToken},
    inner::Inner,
    oauth_error::OAuthError,
    parameters::{Parameters, Sender},
    reply,
    seal::Purpose,
};
use crate::{claims::MAX_LEEWAY, jose::Jws, jwt::KeySource as _};

/// Why a grant ends that its client has revoked.
const REASON: &str = "the client has revoked it";

/// Ends the grant of a refresh or access token, or an access token without a grant. Unknown tokens need no revocation, so they
/// are no errors.
pub(super) async fn revoke(server: &Inner, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let client = server.clients.authenticate(sender, &form).await?;
    let of_client = |error: OAuthError| error.of_client(&client.id);
    let missing = || of_client(OAuthError::new("invalid_request", "`token` is missing"));
    let token = form.get("token").ok_or_else(missing)?;
    if let Some(RefreshToken { grant: id, .. }) = server.sealer.open_text(Purpose::RefreshToken, token) {
        if let Some((grant, _)) = grants::get(server, &id).await? {
            check(&client, Some(&grant.client)).map_err(of_client)?;
            grants::end(server, &id, sender.peer, REASON).await?;
        }
    } else if let Some(claims) = verified_claims(server, token).await {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        check(&client, text("client_id")).map_err(of_client)?;
        let is_machine = text("sub").and_then(|sub| sub.strip_prefix(MACHINE)) == Some(client.id.as_str());
        let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        let has_expired = expires + MAX_LEEWAY.as_secs_f64() <= server.clock.unix();
        match (text(grants::GRANT), text("jti")) {
            (Some(grant), _) => grants::end(server, grant, sender.peer, REASON).await?,
            // The token of a machine, which states its client twice, or one that was issued for an identity assertion. It
            // counts for its client, which would otherwise leave no room for what users end.
            (None, Some(id)) if !has_expired && (is_machine || text(grants::ASSERTIONS).is_some()) => {
                let subject = text("sub").unwrap_or_default();
                server.ended.add(id, &format!("{MACHINE}{}", client.id)).await?;
                let event = Event::new("revocation", sender.peer)
                    .principal(&server.options.issuer, subject)
                    .client(client.id.as_str());
                event.reason(REASON).record();
            }
            _ => {}
        }
    }
    Ok(reply::empty(StatusCode::OK))
}

/// # Errors
///
/// Returns an error if a token was issued to another client.
fn check(client: &Client, owner: Option<&str>) -> Result<(), OAuthError> {
    if owner == Some(&client.id) {
        return Ok(());
    }
    Err(OAuthError::new("invalid_grant", "the token was issued to another client"))
}

/// Returns the claims of a token that this server has signed.
pub(super) async fn verified_claims(server: &Inner, token: &str) -> Option<Map<String, Value>> {
    let token = Jws::parse(token).ok()?;
    server.keys.verify(&token).await.ok()?;
    token.claims().ok()
}
