//! Grants: what users have allowed clients to do.

use std::{collections::HashSet, time::Duration};

use mcp_runtime::backend::{BackendError, RecordCondition, RecordVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::JoinError;

use super::{
    audit::Event,
    client::{Authentication, Client},
    inner::Inner,
    login::{Tokens, UpstreamError, UpstreamTokenError},
    oauth_error::OAuthError,
    random,
    seal::Purpose,
    store::LOCK_RENEWAL,
};
use crate::shares::Peer;

/// The time in which a client that repeats a refresh gets the same answer: its requests were sent at the same moment, or
/// the first answer was lost.
const REPETITION: Duration = Duration::from_secs(30);

/// The number of attempts to renew a grant that is changed at the same time, and the longest pause between them.
pub(super) const ATTEMPTS: usize = 3;
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The number of attempts to write a grant, and the longest pause between them. Together with the requests to the provider,
/// they take less time than other requests wait for the lock of the grant.
const WRITES: usize = 4;
const MAX_WRITE_PAUSE: Duration = Duration::from_millis(500);

/// The approval of a user for a client, from which access tokens are issued until it ends.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    /// The claims of the user at the provider, from the last identity token if it issues them.
    pub(super) claims: Map<String, Value>,
    /// The claims that the user endpoint has returned after that token, which take precedence.
    #[serde(default)]
    pub(super) user_claims: Map<String, Value>,
    /// The number of the only refresh token that is valid.
    pub(super) generation: u64,
    /// The answer to the refresh that has created this generation.
    pub(super) answer: Option<Answer>,
    pub(super) tokens: Tokens,
    /// The thumbprint of the key to which the last tokens are bound: always the access token, and the refresh token if the
    /// client has no credentials.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// The times of the approval and of the last refresh, and the end, in seconds since the Unix epoch.
    pub(super) created: f64,
    pub(super) used: f64,
    pub(super) expires: f64,
}

/// The tokens that a client has received last, which it receives once more if it repeats the request.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Answer {
    tokens: Value,
    /// Seconds since the Unix epoch.
    until: f64,
}

/// A refresh token, which is sealed. Its text reveals nothing and cannot be invented.
#[derive(Serialize, Deserialize)]
pub(super) struct RefreshToken {
    pub(super) grant: String,
    pub(super) generation: u64,
}

impl Grant {
    /// Returns all claims of the user at the provider.
    pub(super) fn all_claims(&self) -> Map<String, Value> {
        let mut claims = self.claims.clone();
        claims.extend(self.user_claims.clone());
        claims
    }

    /// Returns whether the grant has ended by its lifetime, or because it was not refreshed.
    pub(super) fn has_expired(&self, server: &Inner, now: f64) -> bool {
        let is_idle = server.options.grant_idle_timeout.is_some_and(|max| self.used + max.as_secs_f64() <= now);
        is_idle || self.expires <= now
    }

    /// Returns whether a refresh token may be used only with another key.
    pub(super) fn is_bound_to_another(&self, client: &Client, key: Option<&str>) -> bool {
        client.authentication == Authentication::None && self.key.is_some() && self.key.as_deref() != key
    }

    /// Returns the answer to a refresh with a key that was answered a moment ago.
    pub(super) fn repeated(
        &self,
        token: &RefreshToken,
        client: &Client,
        key: Option<&str>,
        scopes: &[String],
        now: f64,
    ) -> Option<Value> {
        let answer = self.answer.as_ref().filter(|answer| now < answer.until)?;
        let is_same = token.generation + 1 == self.generation
            && self.client == client.id
            && self.key.as_deref() == key
            && answer.tokens["scope"].as_str().unwrap_or_default() == scopes.join(" ");
        is_same.then(|| answer.tokens.clone())
    }

    /// Remembers the answer to a refresh.
    pub(super) fn remember(&mut self, tokens: &Value, now: f64) {
        self.answer = Some(Answer { tokens: tokens.clone(), until: now + REPETITION.as_secs_f64() });
    }
}

/// Reads a grant.
pub(super) async fn get(server: &Inner, id: &str) -> Result<Option<(Grant, RecordVersion)>, BackendError> {
    server.store.get("grant", id).await
}

/// Replaces a grant. Returns `false` if it was changed meanwhile. Repeats a write that fails: the provider may accept only
/// the new tokens, which exist nowhere else.
pub(super) async fn replace(
    server: &Inner,
    id: &str,
    version: RecordVersion,
    grant: &Grant,
) -> Result<bool, BackendError> {
    let lifetime = lifetime(server, grant);
    let write = || server.store.set("grant", id, RecordCondition::Version(version), grant, lifetime);
    for _ in 1..WRITES {
        match write().await {
            Err(error) => tracing::warn!(%error, "a grant cannot be written, so the write is repeated"),
            written => return written,
        }
        random::pause(MAX_WRITE_PAUSE).await;
    }
    write().await
}

/// Returns the remaining time of a grant, unless it is refreshed.
pub(super) fn lifetime(server: &Inner, grant: &Grant) -> Duration {
    let now = server.clock.unix();
    let idle = server.options.grant_idle_timeout.map_or(f64::INFINITY, |max| grant.used + max.as_secs_f64());
    Duration::from_secs_f64((grant.expires.min(idle) - now).max(0.0))
}

/// Runs `work` while no other request, at whatever process, renews the tokens of a grant: most providers accept a refresh
/// token once, and end the login if it is used again. The work is finished even if the client disconnects. If it panics,
/// the lock is released, too.
pub(super) async fn exclusively<T: Send + 'static>(
    server: &Inner,
    id: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, BackendError> {
    let mut lock = server.store.lock(id).await?;
    let work = tokio::spawn(async move {
        let mut work = tokio::spawn(work);
        let result = loop {
            match tokio::time::timeout(LOCK_RENEWAL, &mut work).await {
                Ok(result) => break result,
                Err(_) => lock.renew().await,
            }
        };
        lock.release().await;
        result
    });
    let failed = |error: JoinError| BackendError::Unavailable(error.to_string());
    work.await.map_err(failed)?.map_err(failed)
}

/// Renews the tokens and claims of a grant at the provider. It ends if the provider refuses, or if the user may no longer
/// use the server. Returns `None` if the grant was changed meanwhile, so that it must be read again.
pub(super) async fn renew(
    server: &Inner,
    id: &str,
    mut grant: Grant,
    version: RecordVersion,
    peer: Peer,
) -> Result<Option<Grant>, UpstreamTokenError> {
    let upstream = &server.upstream;
    let can_refresh = grant.tokens.refresh.is_some();
    let renewed = async {
        let (tokens, identity) = upstream.refresh(&grant.tokens, server.clock.unix()).await?;
        grant.tokens = tokens;
        // An identity token says whose tokens these are. Without new tokens, the user endpoint is the only way to find out
        // whether the login still exists.
        if !can_refresh || identity.is_some() || (server.options.uses_claims() && upstream.has_users()) {
            let newest = upstream.newest_claims(&grant.claims, &grant.tokens.access, identity).await?;
            (grant.claims, grant.user_claims) = newest;
        }
        Ok::<_, UpstreamError>(())
    };
    let reason = match renewed.await {
        Ok(()) if server.options.admits(&Value::Object(grant.all_claims())) => return Ok(Some(grant)),
        Ok(()) => "the user may no longer use the server".to_owned(),
        Err(UpstreamError::Refused(reason)) => {
            if get(server, id).await?.is_some_and(|(_, current)| current != version) {
                return Ok(None);
            }
            reason
        }
        Err(error) => {
            tracing::warn!(%error, "a login at the provider cannot be checked");
            if can_refresh {
                // The provider may have replaced the tokens before it has failed.
                replace(server, id, version, &grant).await?;
            }
            return Err(UpstreamTokenError::Unavailable);
        }
    };
    end(server, id, peer, &reason).await?;
    Err(UpstreamTokenError::Ended)
}

/// Ends a grant. Its access tokens are rejected by this process at once, and by others within a second.
pub(super) async fn end(server: &Inner, id: &str, peer: Peer, reason: &str) -> Result<(), BackendError> {
    let found = get(server, id).await;
    let subject = found.as_ref().ok().and_then(Option::as_ref).map_or("", |(grant, _)| &grant.subject);
    let announced = server.ended.add(id, subject).await;
    server.store.delete("grant", id).await?;
    announced?;
    if let Some((grant, _)) = found? {
        let event = Event::new("revocation", peer)
            .principal(&server.options.issuer, &grant.subject)
            .client(grant.client.as_str());
        event.reason(reason).record();
    }
    Ok(())
}

/// Returns the requested scopes, which must be granted, or else all of them.
pub(super) fn narrowed(granted: &[String], requested: Option<&str>) -> Result<Vec<String>, OAuthError> {
    let Some(requested) = requested else { return Ok(granted.to_vec()) };
    let requested: HashSet<&str> = requested.split(' ').filter(|scope| !scope.is_empty()).collect();
    if requested.is_empty() {
        return Err(OAuthError::new("invalid_scope", "`scope` names no scope"));
    }
    if !requested.iter().all(|scope| granted.iter().any(|granted| granted == scope)) {
        return Err(OAuthError::new("invalid_scope", "a scope was not granted"));
    }
    // Repetitions are dropped, since the answer is stored.
    Ok(granted.iter().filter(|scope| requested.contains(scope.as_str())).cloned().collect())
}

/// The claims of an access token that name what it ends with: a grant, what was issued to a user for identity assertions,
/// and itself.
pub(super) const BINDINGS: [&str; 3] = [GRANT, ASSERTIONS, "jti"];
pub(super) const GRANT: &str = "grant";
pub(super) const ASSERTIONS: &str = "assertions";

/// Returns the `scope` of a response or a token. It is absent without scopes, since its grammar requires at least one.
///
/// See [RFC 6749, 3.3](https://www.rfc-editor.org/rfc/rfc6749#section-3.3).
pub(super) fn scope(scopes: &[String]) -> Option<String> {
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

/// Signs an access token, which is bound by a claim with an identifier, and to the key with a thumbprint.
pub(super) async fn access_token(
    server: &Inner,
    subject: &str,
    client: &Client,
    scopes: &[String],
    claims: &Map<String, Value>,
    bound: Option<(&str, &str)>,
    key: Option<&str>,
) -> Result<String, OAuthError> {
    let (options, now) = (&server.options, server.clock.unix().floor());
    let mut token = claims.clone();
    let expires = now + options.access_token_lifetime.as_secs_f64();
    let own = json!({
        "iss": options.issuer,
        "aud": options.resource,
        "sub": subject,
        "client_id": client.id,
        "iat": now as u64,
        "exp": expires as u64,
        "jti": random::token()?,
    });
    token.extend(own.as_object().cloned().unwrap_or_default());
    // No claim of the provider takes its place.
    token.retain(|claim, _| claim != "scope" && claim != "scp");
    token.extend(scope(scopes).map(|scope| ("scope".to_owned(), json!(scope))));
    if let Some((claim, id)) = bound {
        token.insert(claim.to_owned(), json!(id));
    }
    if let Some(key) = key {
        token.insert("cnf".to_owned(), json!({"jkt": key}));
    }
    Ok(server.keys.sign(&Value::Object(token)).await)
}

pub(super) fn refresh_token(server: &Inner, grant: &str, generation: u64) -> Result<String, OAuthError> {
    let token = RefreshToken { grant: grant.to_owned(), generation };
    Ok(server.sealer.seal_text(Purpose::RefreshToken, &token)?)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, pause, sleep};

    use super::*;
    use crate::tests::authorization_server::World;

    /// The lock of a process that has stopped expires earlier.
    #[tokio::test]
    async fn other_requests_wait_for_as_long_as_the_provider_takes() {
        const WORK: Duration = Duration::from_secs(15);
        let server = World::new().await.server.upstream_tokens().0;
        pause();
        let began_at = Instant::now();
        let next = async {
            sleep(Duration::from_secs(1)).await;
            exclusively(&server, "grant", async move { began_at.elapsed() }).await.unwrap()
        };
        let (worked, waited) = tokio::join!(exclusively(&server, "grant", sleep(WORK)), next);
        assert!(worked.is_ok() && waited >= WORK, "{waited:?}");
    }
}
