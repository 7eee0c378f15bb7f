//! Logout at the provider: it tells the server which login has ended.
//!
//! See [OpenID Connect Back-Channel Logout](https://openid.net/specs/openid-connect-backchannel-1_0.html).

use bytes::Bytes;
use http::{Response, StatusCode, header};
use mcp_runtime::{
    auth::{AuthenticationError, AuthenticationErrorKind},
    backend::BackendError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    inner::Inner,
    login::session_of,
    oauth_error::OAuthError,
    parameters::{Parameters, Sender},
    random, reply, users,
};
use crate::jose::Jws;

/// The types of logout tokens. Older providers state none.
const TOKEN_TYPES: [Option<&str>; 3] = [None, Some("jwt"), Some("logout+jwt")];

/// The event that distinguishes logout tokens from identity tokens.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Why a grant ends that the provider has ended.
const REASON: &str = "the user has logged out at the provider";

/// The tolerated clock difference between provider and server, in seconds.
const LEEWAY: f64 = 60.0;

/// A session of a user at the provider.
#[derive(Default, Serialize, Deserialize)]
struct Session {
    subject: String,
    /// Codes that were issued until this time, in seconds since the Unix epoch, create no grants.
    ended: f64,
}

/// Remembers the user of a session, since a logout token may state the session only.
pub(super) async fn add_session(server: &Inner, session: &str, subject: &str) -> Result<(), BackendError> {
    let id = random::hash(session);
    update(server, &id, |stored| subject.clone_into(&mut stored.subject)).await?;
    if let Some(oldest) = users::add_session(server, subject, &id).await? {
        server.store.delete("session", &oldest).await?;
    }
    Ok(())
}

/// Returns whether the session of a login has ended since a code was issued for it.
pub(super) async fn has_ended(server: &Inner, claims: &Map<String, Value>, issued: f64) -> Result<bool, BackendError> {
    let Some(session) = session_of(claims) else { return Ok(false) };
    let found = server.store.get::<Session>("session", &random::hash(session)).await?;
    Ok(found.is_some_and(|(session, _)| issued <= session.ended))
}

async fn update(server: &Inner, id: &str, change: impl FnMut(&mut Session)) -> Result<(), BackendError> {
    server.store.update("session", id, server.options.login_lifetime, change).await
}

/// Ends the grants of a session or, if the token names none, of a user. A token that is repeated ends nothing that was
/// allowed since it was issued.
pub(super) async fn handle(server: &Inner, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let claims = verify(server, form.get("logout_token").unwrap_or_default()).await?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let issued = claims.get("iat").and_then(Value::as_f64).ok_or_else(|| invalid("it has no `iat`"))?;
    let until = (issued + LEEWAY).min(server.clock.unix() + users::SKEW);
    let subject = text("sub").filter(|_| server.upstream.identifies_by_sub()).map(str::to_owned);
    let mut users = Vec::from_iter(subject);
    if let Some(session) = text("sid") {
        let id = random::hash(session);
        if let Some((stored, _)) = server.store.get::<Session>("session", &id).await? {
            update(server, &id, |stored| stored.ended = stored.ended.max(until)).await?;
            if users.is_empty() {
                users.push(stored.subject);
            }
        }
    } else if users.is_empty() {
        return Err(invalid("it names no session and no user"));
    }
    for subject in users {
        users::end_until(server, &subject, text("sid"), until, sender.peer, REASON).await?;
    }
    Ok(done())
}

/// Verifies a logout token. Returns its claims.
async fn verify(server: &Inner, text: &str) -> Result<Map<String, Value>, OAuthError> {
    let token = Jws::parse(text).map_err(invalid)?;
    if !TOKEN_TYPES.contains(&token.kind().as_deref()) {
        return Err(invalid("it is a token for another purpose"));
    }
    let refused = |error: AuthenticationError| match error.kind() {
        AuthenticationErrorKind::Unavailable { .. } => OAuthError::unavailable(),
        _ => invalid(error.message()),
    };
    let claims = server.upstream.verify(&token, None).await.map_err(refused)?;
    let event = claims.get("events").and_then(|events| events.get(EVENT));
    if !event.is_some_and(Value::is_object) || claims.contains_key("nonce") || !claims.contains_key("jti") {
        return Err(invalid("it is a token for another purpose"));
    }
    Ok(claims)
}

fn invalid(why: &str) -> OAuthError {
    OAuthError::new("invalid_request", format!("the logout token is not accepted: {why}"))
}

fn done() -> Response<Bytes> {
    let mut response = reply::empty(StatusCode::OK);
    reply::set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}
