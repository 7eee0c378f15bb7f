//! The token endpoint.
//!
//! See [RFC 6749, 3.2](https://www.rfc-editor.org/rfc/rfc6749#section-3.2).

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_runtime::backend::RecordCondition;
use serde_json::{Map, Value, json};

use super::{
    audit::Event,
    authorize::check_resource,
    client::{Authentication, Client},
    codes::{self, Code, MACHINE, ValidCode},
    grants::{self, Grant, RefreshToken, narrowed},
    identity_assertions,
    inner::Inner,
    logout,
    oauth_error::OAuthError,
    parameters::{Parameters, Sender},
    proofs, random, reply,
    seal::Purpose,
    users,
};
use crate::{dpop::Proof, shares::Peer};

/// The bounds of the length of a PKCE verifier.
const VERIFIER: std::ops::RangeInclusive<usize> = 43..=128;

/// Returns whether a text is a PKCE verifier.
///
/// See [RFC 7636, 4.1](https://www.rfc-editor.org/rfc/rfc7636#section-4.1).
fn is_verifier(text: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    VERIFIER.contains(&text.len()) && text.bytes().all(is_unreserved)
}

/// Issues tokens.
pub(super) async fn issue(server: &Arc<Inner>, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let client = server.clients.authenticate(sender, &form).await?;
    let of_client = |error: OAuthError| error.of_client(&client.id);
    let (proof, next_nonce) = proofs::check_for_tokens(server, &client, sender).map_err(of_client)?;
    let tokens = tokens(server, &client, &form, proof, sender.peer).await.map_err(of_client)?;
    let mut response = reply::json(StatusCode::OK, &tokens);
    reply::set_nonce(&mut response, next_nonce);
    Ok(response)
}

async fn tokens(
    server: &Arc<Inner>,
    client: &Client,
    form: &Parameters<'_>,
    proof: Option<Proof>,
    peer: Peer,
) -> Result<Value, OAuthError> {
    check_resource(server, form)?;
    match form.get("grant_type") {
        Some("authorization_code") => exchange(server, client, form, proof.as_ref(), peer).await,
        Some("refresh_token") => refresh(server, client, form, proof, peer).await,
        Some("client_credentials") => for_machine(server, client, form, proof.as_ref(), peer).await,
        Some(identity_assertions::GRANT_TYPE) if server.options.identity_assertions => {
            let proof = proof.as_ref();
            let (token, scopes) = identity_assertions::exchange(server, client, form, proof, peer).await?;
            Ok(response(server, &token, &scopes, proofs::key(proof)))
        }
        Some(_) => Err(OAuthError::new("unsupported_grant_type", "the grant type is not supported")),
        None => Err(OAuthError::new("invalid_request", "`grant_type` is missing")),
    }
}

/// Exchanges a code.
async fn exchange(
    server: &Inner,
    client: &Client,
    form: &Parameters<'_>,
    proof: Option<&Proof>,
    peer: Peer,
) -> Result<Value, OAuthError> {
    let required = |name: &'static str| {
        form.get(name).ok_or_else(|| OAuthError::new("invalid_request", format!("`{name}` is missing")))
    };
    let (code, verifier) = (required("code")?, required("code_verifier")?);
    let redirect_uri = form.get("redirect_uri");
    let found = codes::find(server, code, peer, |request| {
        let invalid = |why: &'static str| Err(OAuthError::new("invalid_grant", why));
        if request.client != client.id {
            return invalid("the code was issued to another client");
        }
        if redirect_uri.is_some_and(|uri| uri != request.redirect_uri) {
            return invalid("the code was issued for another redirect URI");
        }
        if !is_verifier(verifier) || random::hash(verifier) != request.challenge {
            return invalid("the verifier does not match the challenge");
        }
        if request.key.is_some() && request.key.as_deref() != proofs::key(proof) {
            return invalid("the code is bound to another key");
        }
        Ok(())
    })
    .await?;
    let ValidCode { code, key, version } = found;
    proofs::remember(server, proof, &code.subject).await?;
    let issued = code.issued();
    let Code { request, subject, claims, tokens, expires: _ } = code;
    let options = &server.options;
    // Without a way to find out that the user has logged out at the provider, the user logs in again.
    let is_refreshed = client.wants_refresh_tokens && server.upstream.can_check(&tokens);
    let lifetime = if is_refreshed { options.login_lifetime } else { options.access_token_lifetime };
    let created = server.clock.unix();
    let expires = created + lifetime.as_secs_f64();
    let (client_id, scopes) = (client.id.clone(), request.scopes.clone());
    let grant = Grant {
        client: client_id,
        subject,
        scopes,
        claims,
        user_claims: Map::new(),
        generation: 0,
        answer: None,
        tokens,
        key: proofs::key(proof).map(str::to_owned),
        created,
        used: created,
        expires,
    };
    let grant_id = random::token()?;
    let lifetime = grants::lifetime(server, &grant);
    server.store.set("grant", &grant_id, RecordCondition::Absent, &grant, lifetime).await?;
    codes::mark_used(server, &key, version, &grant_id, &grant.subject, request, peer).await?;
    let is_valid = users::add_grant(server, &grant.subject, &grant_id, issued).await?;
    if !is_valid || logout::has_ended(server, &grant.claims, issued).await? {
        grants::end(server, &grant_id, peer, "the grants of the user were ended").await?;
        return Err(OAuthError::new("invalid_grant", "the grants of the user were ended"));
    }
    let tokens = respond(server, client, &grant, &grant_id, &grant.scopes, is_refreshed).await?;
    Event::new("issuance", peer).principal(&server.options.issuer, &grant.subject).client(client.id.as_str()).record();
    Ok(tokens)
}

/// Replaces a refresh token. A repetition within a few seconds by the same client and key gets the same tokens. Otherwise, a token
/// that was replaced before ends the grant, since it or its successor was stolen.
///
/// See [RFC 9700, 4.14.2](https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2).
async fn refresh(
    server: &Arc<Inner>,
    client: &Client,
    form: &Parameters<'_>,
    proof: Option<Proof>,
    peer: Peer,
) -> Result<Value, OAuthError> {
    let token = form.get("refresh_token").unwrap_or_default();
    let token: RefreshToken = server.sealer.open_text(Purpose::RefreshToken, token).ok_or_else(invalid)?;
    let (id, scope) = (token.grant.clone(), form.get("scope").map(str::to_owned));
    let (shared, client) = (Arc::clone(server), client.clone());
    let work = async move { replace(&shared, &client, &token, scope.as_deref(), proof.as_ref(), peer).await };
    grants::exclusively(server, &id, work).await?
}

fn invalid() -> OAuthError {
    OAuthError::new("invalid_grant", "the refresh token is invalid, was used before or has expired")
}

async fn replace(
    server: &Inner,
    client: &Client,
    token: &RefreshToken,
    scope: Option<&str>,
    proof: Option<&Proof>,
    peer: Peer,
) -> Result<Value, OAuthError> {
    let (id, key) = (&token.grant, proofs::key(proof));
    let mut unused = proof;
    let refreshed = |grant: &Grant| {
        Event::new("refresh", peer).principal(&server.options.issuer, &grant.subject).client(client.id.as_str())
    };
    for _ in 0..grants::ATTEMPTS {
        let (grant, version) = grants::get(server, id).await?.ok_or_else(invalid)?;
        let now = server.clock.unix();
        if grant.has_expired(server, now) {
            return Err(invalid());
        }
        proofs::remember(server, unused.take(), &grant.subject).await?;
        let scopes = narrowed(&grant.scopes, scope);
        if grant.generation != token.generation {
            if let Ok(scopes) = &scopes
                && let Some(answer) = grant.repeated(token, client, key, scopes, now)
            {
                refreshed(&grant).reason("the client has repeated the request").record();
                return Ok(answer);
            }
            let reason = "a refresh token was used twice";
            Event::new("reuse", peer)
                .principal(&server.options.issuer, &grant.subject)
                .client(grant.client.as_str())
                .reason(reason)
                .record();
            grants::end(server, id, peer, reason).await?;
            return Err(invalid());
        }
        if grant.client != client.id {
            return Err(OAuthError::new("invalid_grant", "the refresh token was issued to another client"));
        }
        if grant.is_bound_to_another(client, key) {
            return Err(OAuthError::new("invalid_grant", "the refresh token is bound to another key"));
        }
        let scopes = scopes?;
        if let Some(mut grant) = grants::renew(server, id, grant, version, peer).await? {
            grant.generation += 1;
            grant.key = key.map(str::to_owned);
            grant.used = server.clock.unix();
            let tokens = respond(server, client, &grant, id, &scopes, true).await?;
            grant.remember(&tokens, server.clock.unix());
            if grants::replace(server, id, version, &grant).await? {
                refreshed(&grant).record();
                return Ok(tokens);
            }
        }
        random::pause(grants::MAX_PAUSE).await;
    }
    Err(OAuthError::unavailable())
}

/// Issues a token to a machine, in its own name.
async fn for_machine(
    server: &Inner,
    client: &Client,
    form: &Parameters<'_>,
    proof: Option<&Proof>,
    peer: Peer,
) -> Result<Value, OAuthError> {
    let Some(scopes) = client.machine_scopes.as_ref().filter(|_| client.authentication != Authentication::None) else {
        return Err(OAuthError::new("unauthorized_client", "the client may act only for users"));
    };
    let scopes = narrowed(scopes, form.get("scope"))?;
    let subject = format!("{MACHINE}{}", client.id);
    proofs::remember(server, proof, &subject).await?;
    let key = proofs::key(proof);
    let token = grants::access_token(server, &subject, client, &scopes, &Map::new(), None, key).await?;
    Event::new("issuance", peer).principal(&server.options.issuer, &subject).client(client.id.as_str()).record();
    Ok(response(server, &token, &scopes, key))
}

async fn respond(
    server: &Inner,
    client: &Client,
    grant: &Grant,
    id: &str,
    scopes: &[String],
    is_refreshed: bool,
) -> Result<Value, OAuthError> {
    let claims = server.options.copied_claims(&grant.all_claims());
    let (bound, key) = (Some((grants::GRANT, id)), grant.key.as_deref());
    let token = grants::access_token(server, &grant.subject, client, scopes, &claims, bound, key).await?;
    let mut response = response(server, &token, scopes, key);
    if is_refreshed {
        response["refresh_token"] = json!(grants::refresh_token(server, id, grant.generation)?);
    }
    Ok(response)
}

fn response(server: &Inner, token: &str, scopes: &[String], key: Option<&str>) -> Value {
    let mut response = json!({
        "access_token": token,
        "token_type": if key.is_some() { "DPoP" } else { "Bearer" },
        "expires_in": server.options.access_token_lifetime.as_secs(),
    });
    if let Some(scope) = grants::scope(scopes) {
        response["scope"] = json!(scope);
    }
    response
}
