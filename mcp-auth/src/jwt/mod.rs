//! Access tokens that are signed JWTs.

mod verify;

use std::{fmt, sync::Arc, time::Duration};

use http::request::Parts;
use mcp_runtime::auth::{AuthenticateFuture, Authenticator, Challenge, ProtectedResource};

pub(crate) use self::verify::Keys;
use self::verify::Verifier;
#[cfg(feature = "server")]
pub(crate) use self::verify::{KeySource, VerifyFuture};
use crate::{
    Dpop, Error, JwkSet, Unbound,
    claims::ClaimRules,
    clock::Clock,
    dpop::{PROOFS, Proofs},
    fetch::Fetcher,
    issuer_keys::IssuerKeys,
    jose::Algorithm,
    token_cache::TokenCache,
    url::SecureUrl,
};

/// The default maximum number of cached tokens.
const CACHED_TOKENS: usize = 10_000;

/// Accepts access tokens that are JSON Web Tokens (JWTs) of one issuer.
///
/// A token is accepted if all of this holds:
///
/// - It is signed with a key of the issuer. The type of the key decides which algorithms are accepted: RS256, RS384,
///   RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA. Unsigned tokens and symmetric signatures are never accepted,
///   and keys or addresses of keys in the header of a token have no effect.
/// - `iss` is the issuer, byte for byte.
/// - `aud` contains the resource, or another accepted [`audience`](Self::with_audience).
/// - `exp` is present and not reached, and `nbf` has passed, each with a [`leeway`](Self::leeway).
/// - `typ`, if present, is `JWT` or `at+jwt`, and `token_use`, if present, is `access` or `access_token`. Other JWTs of
///   the issuer, such as logout tokens, are not access tokens.
/// - It is not bound to a key of the client (`cnf`), unless the client proves that it has the key ([`dpop`](Self::dpop)).
/// - No claim occurs twice, no extension is required (`crit`), and the token has at most 16 KiB.
///
/// The principal consists of `iss` and `sub`, and the scopes are those of `scope` or `scp`.
///
/// The keys of a [discovered](Self::discover) issuer are fetched again before they expire (after an hour, unless
/// `Cache-Control` states another time between 5 minutes and a day) and when a token names an unknown key, but at most
/// every 10 seconds. While the issuer does not respond, known keys remain in use for up to a day.
///
/// Verified tokens are [cached](Self::cache) until they expire.
///
/// ```no_run
/// # use mcp_runtime::Server;
/// #[mcp_runtime::server]
/// async fn main(server: Server) -> Result<Server, mcp_auth::Error> {
///     let issuer = mcp_auth::Jwt::discover("https://id.example.com").await?;
///     Ok(server.authenticate(issuer.resource("https://mcp.example.com/mcp")))
/// }
/// ```
///
/// See [Token handling](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling).
pub struct Jwt(Verifier);

impl Jwt {
    /// Discovers an issuer by its identifier, such as `https://id.example.com`, and fetches its keys.
    ///
    /// The metadata is that of an OAuth authorization server or of an OpenID provider. It must state the same
    /// identifier, byte for byte: some issuers end with `/`. Identifiers and addresses of keys must be `https` URLs,
    /// except on the loopback interface. Redirects are not followed, proxies are not used, and responses may take
    /// 5 seconds and have 1 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata or the keys are not available, so that a server with a wrong issuer does not
    /// start.
    pub async fn discover(issuer: impl Into<String>) -> Result<Unbound<Self>, Error> {
        Self::discover_with(issuer.into(), Fetcher::new(), Clock::default()).await
    }

    pub(crate) async fn discover_with(issuer: String, fetcher: Fetcher, clock: Clock) -> Result<Unbound<Self>, Error> {
        let keys = IssuerKeys::discover(SecureUrl::parse(&issuer)?, fetcher, clock.clone()).await?;
        Ok(Self::unbound(issuer, Keys::Issuer(Arc::new(keys)), clock))
    }

    /// Accepts tokens of an issuer with fixed keys.
    pub fn keys(issuer: impl Into<String>, keys: JwkSet) -> Unbound<Self> {
        Self::unbound(issuer.into(), Keys::Fixed(keys), Clock::default())
    }

    pub(crate) fn unbound(issuer: String, keys: Keys, clock: Clock) -> Unbound<Self> {
        let rules = ClaimRules::new(issuer.into(), String::new());
        let cache = TokenCache::new(CACHED_TOKENS);
        Unbound(Self(Verifier { keys, rules, clock, cache, at_jwt_only: false, proofs: None }))
    }

    /// Adds an audience that is accepted beside the resource, for issuers that cannot put the URL of the resource into tokens.
    ///
    /// Every token with this audience is accepted, so it must not identify any other service.
    #[must_use]
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.0.rules.audience.add(audience.into());
        self
    }

    /// Sets how much the clocks of issuer and server may differ. Default: 60 seconds; at most 5 minutes.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.0.rules.set_leeway(leeway);
        self
    }

    /// Accepts only tokens with the type `at+jwt`, which distinguishes them from other JWTs of the issuer.
    ///
    /// See [RFC 9068](https://www.rfc-editor.org/rfc/rfc9068#section-2.1).
    #[must_use]
    pub fn require_at_jwt(mut self) -> Self {
        self.0.at_jwt_only = true;
        self
    }

    /// Reads the scopes from another claim: its name, or a path such as `/realm_access/roles`. A string contains several
    /// scopes separated by spaces, an array contains one in each element. Default: `scope` or, without it, `scp`.
    #[must_use]
    pub fn scope_claim(mut self, claim: impl Into<String>) -> Self {
        self.0.rules.set_scope_claim(claim.into());
        self
    }

    /// Sets how many verified tokens are cached, with at most 4 KiB for each on average. Default: 10,000. With 0, every
    /// request verifies the signature of its token.
    ///
    /// The cache contains hashes of tokens. An entry ends when its token expires, and when the keys of the issuer
    /// change.
    #[must_use]
    pub fn cache(mut self, max_tokens: usize) -> Self {
        self.0.cache = TokenCache::new(max_tokens);
        self
    }

    /// Accepts tokens that are bound to a key of the client, with a proof that the client has it. By default, such tokens
    /// are rejected.
    ///
    /// ```no_run
    /// # use mcp_auth::{Dpop, Jwt};
    /// # async fn authenticator() -> Result<Jwt, mcp_auth::Error> {
    /// let issuer = Jwt::discover("https://id.example.com").await?;
    /// let jwt = issuer.resource("https://mcp.example.com/mcp").dpop(Dpop::required().nonces())?;
    /// # Ok(jwt)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the resource is not an `https` URL, or if the system has no random numbers.
    pub fn dpop(mut self, options: Dpop) -> Result<Self, Error> {
        let resource = self.0.rules.audience.resource();
        self.0.proofs = Some(Proofs::new(options, resource, PROOFS, self.0.clock.clone())?);
        Ok(self)
    }
}

#[cfg(test)]
impl Jwt {
    /// Uses the keys, and returns whether that has begun to fetch them again.
    pub(crate) fn is_fetching_keys(&self) -> bool {
        match &self.0.keys {
            Keys::Fixed(_) => false,
            #[cfg(feature = "server")]
            Keys::Shared(_) => false,
            Keys::Issuer(keys) => {
                keys.generation();
                keys.is_fetching()
            }
        }
    }
}

impl Unbound<Jwt> {
    /// Sets the URL of the server as clients know it, such as `https://mcp.example.com/mcp`. It is the audience that
    /// tokens must have, and the resource that clients are told to request tokens for.
    pub fn resource(mut self, url: impl Into<String>) -> Jwt {
        let rules = &mut self.0.0.rules;
        *rules = ClaimRules::new(Arc::clone(&rules.issuer), url.into());
        self.0
    }
}

impl Authenticator for Jwt {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        self.0.authenticate(request)
    }

    fn protected_resource(&self) -> ProtectedResource {
        let Verifier { rules, proofs, .. } = &self.0;
        let resource =
            ProtectedResource::new().resource(rules.audience.resource()).with_authorization_server(&*rules.issuer);
        let Some(proofs) = proofs else { return resource };
        let resource = resource.dpop_signing_algorithms(Algorithm::names());
        if proofs.required() {
            resource.with_challenge(proofs.challenge()).bearer_methods([""; 0]).dpop_required(true)
        } else {
            resource.with_challenge(Challenge::new("Bearer")).with_challenge(proofs.challenge())
        }
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("rules", &self.0.rules).field("keys", &self.0.keys).finish_non_exhaustive()
    }
}
