use std::{fmt, sync::Arc, time::SystemTime};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::stdx::{debug, setters};

/// The authenticated sender of a request: a principal, the scopes it was granted, and what else is known about it.
///
/// Over HTTP, an `Authenticator` creates it from the credentials of a request, or a middleware inserts it into the
/// extensions of the request. Functions read it with [`Context::identity`](crate::Context::identity).
///
/// Everything that outlives a request belongs to the [`Principal`]. Scopes and claims belong to one request, and may
/// differ in the next request of the same principal.
///
/// Clones share their data, so an authenticator can keep identities in a cache.
///
/// ```
/// use mcp_runtime::auth::{Identity, Principal};
/// use serde_json::json;
///
/// let identity = Identity::new(Principal::of_subject("https://id.example.com", "248289761001"))
///     .with_scopes(["notes:read", "notes:write"])
///     .with_claims(json!({"email": "ada@example.com"}));
/// assert!(identity.has_scope("notes:write"));
///
/// #[derive(serde::Deserialize)]
/// struct Claims {
///     email: String,
/// }
/// let claims: Claims = identity.claims().unwrap();
/// assert_eq!(claims.email, "ada@example.com");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Identity {
    known: Arc<Known>,
    #[cfg(feature = "http")]
    response_headers: Option<Box<http::HeaderMap>>,
}

/// The sender, as the authenticator knows it.
#[derive(Clone)]
struct Known {
    principal: Principal,
    scopes: Vec<Box<str>>,
    expires_at: Option<SystemTime>,
    claims: Value,
}

impl Identity {
    /// Creates the identity of a principal, without scopes, expiry and claims.
    pub fn new(principal: impl Into<Principal>) -> Self {
        let known = Known { principal: principal.into(), scopes: Vec::new(), expires_at: None, claims: Value::Null };
        Self {
            known: Arc::new(known),
            #[cfg(feature = "http")]
            response_headers: None,
        }
    }

    setters! {
        /// Adds scopes that the sender was granted.
        pub fn with_scopes(self, scopes: impl IntoIterator<Item = impl Into<String>>) {
            let scopes = scopes.into_iter().map(|scope| scope.into().into_boxed_str());
            Arc::make_mut(&mut self.known).scopes.extend(scopes);
        }

        /// Sets the time at which the credentials expire.
        ///
        /// An authenticator rejects credentials that have expired. The time tells the runtime how long it may continue
        /// work that a request has started, such as an event stream.
        ///
        /// ```
        /// use std::time::{Duration, SystemTime};
        ///
        /// use mcp_runtime::auth::Identity;
        ///
        /// let identity = Identity::new("ada").with_expiry(SystemTime::now() + Duration::from_secs(300));
        /// assert!(identity.expires_at().is_some());
        /// ```
        pub fn with_expiry(self, at: SystemTime) { Arc::make_mut(&mut self.known).expires_at = Some(at) }

        /// Sets the claims: what the credentials state about the sender, usually the JSON object of an access token.
        /// Replaces earlier claims.
        pub fn with_claims(self, claims: Value) { Arc::make_mut(&mut self.known).claims = claims }

        /// Adds a header to the response to this request, such as a `DPoP-Nonce` for the next request. Clones of the
        /// identity that were created earlier do not have it.
        #[cfg(feature = "http")]
        pub fn with_response_header(self, name: http::HeaderName, value: http::HeaderValue) {
            self.response_headers.get_or_insert_default().append(name, value);
        }
    }

    /// Returns the name of the principal.
    pub fn principal(&self) -> &str {
        self.known.principal.as_str()
    }

    /// Returns the scopes that the sender was granted, without the scopes that they imply.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.known.scopes.iter().map(|scope| &**scope)
    }

    /// Returns whether the sender was granted exactly this scope.
    ///
    /// Scopes that another scope implies are not considered. [`Context::require_scopes`](crate::Context::require_scopes)
    /// considers them.
    ///
    /// ```
    /// use mcp_runtime::auth::Identity;
    ///
    /// let identity = Identity::new("ada").with_scopes(["notes:read"]);
    /// assert!(identity.has_scope("notes:read") && !identity.has_scope("notes:write"));
    /// ```
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().any(|granted| granted == scope)
    }

    /// Returns the time at which the credentials expire.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.known.expires_at
    }

    /// Returns a member of the claims, such as `email`.
    ///
    /// ```
    /// use mcp_runtime::auth::Identity;
    ///
    /// let identity = Identity::new("ada").with_claims(serde_json::json!({"tenant": "acme"}));
    /// assert_eq!(identity.claim("tenant"), Some(&"acme".into()));
    /// ```
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.known.claims.get(name)
    }

    /// Decodes the claims.
    ///
    /// # Errors
    ///
    /// Returns an error if the claims do not have the form of `T`. Without claims, the value is `null`.
    pub fn claims<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.known.claims)
    }

    /// Separates the headers for the response, which belong to one response, from the identity.
    #[cfg(feature = "http")]
    pub(crate) fn take_response_headers(mut self) -> (Self, Option<http::HeaderMap>) {
        let headers = self.response_headers.take().map(|headers| *headers);
        (self, headers)
    }

    /// Returns the headers for the response.
    #[cfg(feature = "http")]
    pub fn response_headers(&self) -> Option<&http::HeaderMap> {
        self.response_headers.as_deref()
    }
}

impl From<Principal> for Identity {
    fn from(principal: Principal) -> Self {
        Self::new(principal)
    }
}

// Omits the claims, which may be personal data, so that an identity can be logged.
debug!(Identity, self, principal: self.known.principal, scopes: self.known.scopes, expires_at: self.known.expires_at);

/// The name of an authenticated sender of requests.
///
/// A principal is part of an [`Identity`](crate::auth::Identity). A middleware that authenticates, but knows neither scopes
/// nor claims, can also insert only a principal into the extensions of each HTTP request.
///
/// Functions read it with [`Context::principal`](crate::Context::principal), and layers and
/// [`Server::visible_to`](crate::Server::visible_to) with [`Caller::principal`](crate::Caller::principal).
///
/// Anything that outlives a request belongs to the principal of the request that created it. Principals are equal if
/// their names are equal, byte for byte. All callers without a principal count as one principal. For other principals,
/// the following do not exist, even if they know the ids:
///
/// - A session with its streams, its calls, its subscriptions and the server's requests to the client. A request that
///   names it receives the status 404, as for an unknown id, and has no effect: it does not cancel a call, answer for
///   the client, resume a stream, end the session or keep it from expiring. A middleware must therefore insert the same
///   principal into every request of a session: if it adds or omits the principal later, the session is not found. The
///   same holds for the sessions of `http::ListenerOptions::legacy_sse`.
/// - A task. Without a principal, it belongs to its session or, in a stateless revision, to any sender that
///   knows its id.
/// - The state of a call that asks its client in stateless revisions: no other principal can continue the call with it.
///
/// [Rate limits](crate::layers) per caller and [cached results](crate::layers) are also kept apart by principal.
///
/// ```
/// use mcp_runtime::auth::Principal;
///
/// let ada = Principal::new("ada@example.com");
/// assert_eq!(ada.as_str(), "ada@example.com");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(String);

impl Principal {
    /// Creates a principal with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Creates the principal of a subject that an issuer has authenticated, such as the `iss` and `sub` of a token.
    ///
    /// A subject is unique only for its issuer, so the name contains both: `issuer#subject`. The characters `#` and `%`
    /// of the issuer are percent-encoded, so different pairs have different names.
    ///
    /// ```
    /// use mcp_runtime::auth::Principal;
    ///
    /// let ada = Principal::of_subject("https://id.example.com", "248289761001");
    /// assert_eq!(ada.as_str(), "https://id.example.com#248289761001");
    /// ```
    pub fn of_subject(issuer: &str, subject: &str) -> Self {
        let mut name = String::with_capacity(issuer.len() + 1 + subject.len());
        for character in issuer.chars() {
            match character {
                '%' => name.push_str("%25"),
                '#' => name.push_str("%23"),
                character => name.push(character),
            }
        }
        name.push('#');
        name.push_str(subject);
        Self(name)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Principal {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_a_clone_does_not_reach_the_original() {
        let cached = Identity::new("ada").with_scopes(["notes:read"]);
        let changed = cached.clone().with_scopes(["notes:write"]).with_expiry(SystemTime::UNIX_EPOCH);
        assert_eq!(cached.scopes().collect::<Vec<_>>(), ["notes:read"]);
        assert_eq!(cached.expires_at(), None);
        assert_eq!(changed.scopes().collect::<Vec<_>>(), ["notes:read", "notes:write"]);
    }

    #[test]
    fn scopes_are_compared_exactly() {
        let identity = Identity::new("ada").with_scopes(["notes:read"]);
        for (scope, expected) in [("notes:read", true), ("notes:Read", false), ("notes", false), ("", false)] {
            assert_eq!(identity.has_scope(scope), expected, "{scope}");
        }
    }

    #[test]
    fn claims_are_absent_or_decoded_and_never_logged() {
        let identity = Identity::new("ada");
        assert_eq!(identity.claims::<Option<u32>>().unwrap(), None);
        assert!(identity.claims::<u32>().is_err());
        assert_eq!(identity.claim("email"), None);
        let identity = identity
            .with_claims(json!({"email": "ada@example.com"}))
            .with_expiry(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!(identity.claim("email"), Some(&json!("ada@example.com")));
        let debug = format!("{identity:?}");
        assert!(debug.contains("ada") && !debug.contains("example.com"), "{debug}");
    }

    #[cfg(feature = "http")]
    #[test]
    fn response_headers_belong_to_one_response() {
        let cached = Identity::new("ada");
        let value = http::HeaderValue::from_static("n-1");
        let identity = cached.clone().with_response_header(http::HeaderName::from_static("dpop-nonce"), value);
        assert!(cached.response_headers().is_none());
        assert_eq!(identity.response_headers().unwrap()["dpop-nonce"], "n-1");
    }

    #[test]
    fn different_subjects_have_different_names() {
        let pairs = [
            ("https://id.example", "ada"),
            ("https://id.example#ada", ""),
            ("https://id.example", "#ada"),
            ("https://id.example#", "ada"),
            ("https://id.example%23", "ada"),
            ("https://id.example%2523", "ada"),
            ("", "https://id.example#ada"),
        ];
        for (index, (issuer, subject)) in pairs.into_iter().enumerate() {
            for (other_issuer, other_subject) in &pairs[index + 1..] {
                let principal = Principal::of_subject(issuer, subject);
                assert_ne!(principal, Principal::of_subject(other_issuer, other_subject));
            }
        }
    }
}
