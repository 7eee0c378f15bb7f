//! The claims that tokens and introspection responses have in common.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mcp_runtime::auth::{AuthenticationError, Identity, Principal};
use serde_json::{Map, Value};

use crate::{audience::Audience, clock::Clock, json::excerpt};

/// The latest time that is accepted, the end of the year 9999.
const MAX_TIME: f64 = 253_402_300_799.0;

/// The maximum leeway.
pub(crate) const MAX_LEEWAY: Duration = Duration::from_secs(5 * 60);

/// The rules for claims.
#[derive(Debug, Clone)]
pub(crate) struct ClaimRules {
    pub(crate) issuer: Arc<str>,
    pub(crate) audience: Audience,
    leeway: Duration,
    /// The claim with the scopes, unless it is `scope` or `scp`.
    scopes: Option<String>,
}

impl ClaimRules {
    pub(crate) fn new(issuer: Arc<str>, resource: String) -> Self {
        Self { issuer, audience: Audience::new(resource), leeway: Duration::from_secs(60), scopes: None }
    }

    pub(crate) fn set_leeway(&mut self, leeway: Duration) {
        self.leeway = leeway.min(MAX_LEEWAY);
    }

    pub(crate) fn set_scope_claim(&mut self, claim: String) {
        self.scopes = Some(claim);
    }

    /// Checks that the claims state the expected issuer.
    pub(crate) fn check_issuer(&self, claims: &Map<String, Value>) -> Result<(), AuthenticationError> {
        match claims.get("iss") {
            Some(Value::String(issuer)) if **issuer == *self.issuer => Ok(()),
            issuer => {
                let issuer = issuer.map_or_else(|| "absent".to_owned(), |issuer| format!("`{}`", excerpt(issuer)));
                Err(AuthenticationError::invalid("the token is of another issuer")
                    .with_detail(format!("`iss` is {issuer}, expected `{}`", self.issuer)))
            }
        }
    }

    /// Checks that the token is not a refresh token or an ID token, if its issuer states its use.
    pub(crate) fn check_use(claims: &Map<String, Value>) -> Result<(), AuthenticationError> {
        match claims.get("token_use").map(Value::as_str) {
            None | Some(Some("access" | "access_token")) => Ok(()),
            Some(_) => Err(AuthenticationError::invalid("the token is not an access token")),
        }
    }

    /// Checks `exp`, if present, and `nbf`. Returns the time at which the token expires.
    pub(crate) fn check_times(
        &self,
        claims: &Map<String, Value>,
        clock: &Clock,
    ) -> Result<Option<f64>, AuthenticationError> {
        let (now, leeway) = (clock.unix(), self.leeway.as_secs_f64());
        let expiry = time(claims, "exp")?;
        if let Some(expiry) = expiry.filter(|expiry| expiry + leeway <= now) {
            return Err(AuthenticationError::invalid("the token has expired")
                .with_detail(format!("it expired {:.0} seconds ago, and the leeway is {leeway:.0}", now - expiry)));
        }
        if let Some(start) = time(claims, "nbf")?.filter(|start| start - leeway > now) {
            return Err(AuthenticationError::invalid("the token is not valid yet")
                .with_detail(format!("it is valid in {:.0} seconds, and the leeway is {leeway:.0}", start - now)));
        }
        Ok(expiry)
    }

    /// Creates the identity of a token.
    ///
    /// # Errors
    ///
    /// Returns an error without a subject.
    pub(crate) fn identity(
        &self,
        claims: Map<String, Value>,
        expiry: Option<f64>,
    ) -> Result<Identity, AuthenticationError> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or_else(|| AuthenticationError::invalid("the token has no subject"))?;
        let principal = Principal::of_subject(&self.issuer, subject);
        let mut identity = Identity::new(principal).with_scopes(self.scopes(&claims));
        if let Some(expiry) = expiry {
            identity = identity.with_expiry(system_time(expiry));
        }
        Ok(identity.with_claims(Value::Object(claims)))
    }

    fn scopes(&self, claims: &Map<String, Value>) -> Vec<String> {
        let claim = match self.scopes.as_deref() {
            None => claims.get("scope").or_else(|| claims.get("scp")),
            Some(pointer) if pointer.starts_with('/') => {
                let mut path = pointer[1..].split('/');
                let first = path.next().and_then(|name| claims.get(name));
                path.try_fold(first, |value, name| Some(value?.get(name))).flatten()
            }
            Some(name) => claims.get(name),
        };
        match claim {
            Some(Value::String(scopes)) => {
                scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
            }
            Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the time of a claim in seconds since the Unix epoch.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, AuthenticationError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let time = value.as_f64().filter(|time| (0.0..=MAX_TIME).contains(time));
    time.map(Some).ok_or_else(|| {
        AuthenticationError::invalid("the token has an invalid time")
            .with_detail(format!("`{name}` is `{}`, expected seconds since the Unix epoch", excerpt(value)))
    })
}

/// Returns a time that [`time`] has checked.
pub(crate) fn system_time(seconds: f64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ClaimRules;

    #[test]
    fn scopes_are_strings_or_arrays_of_the_chosen_claim() {
        let claims = json!({
            "scope": "a  b", "scp": ["c", 1, "d"], "permissions": ["e f"], "realm_access": {"roles": ["g"]}, "odd": {"a": 1},
            "https://example.com/scopes": "h",
        });
        for (chosen, claims, expected) in [
            (None, claims.clone(), &["a", "b"] as &[&str]),
            (None, json!({"scp": ["c", 1, "d"]}), &["c", "d"]),
            (None, json!({"scp": "c d"}), &["c", "d"]),
            (None, json!({}), &[]),
            (Some("permissions"), claims.clone(), &["e f"]),
            (Some("/realm_access/roles"), claims.clone(), &["g"]),
            (Some("/realm_access/none/roles"), claims.clone(), &[]),
            (Some("https://example.com/scopes"), claims.clone(), &["h"]),
            (Some("odd"), claims.clone(), &[]),
            (Some("absent"), claims, &[]),
        ] {
            let mut rules = ClaimRules::new("https://id.example.com".into(), String::new());
            rules.scopes = chosen.map(str::to_owned);
            assert_eq!(rules.scopes(claims.as_object().unwrap()), expected, "{chosen:?} {claims}");
        }
    }
}
