//! Access tokens about which the issuer is asked: RFC 7662.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION, request::Parts};
use mcp_runtime::auth::{
    AuthenticateFuture, AuthenticationError, AuthenticationErrorKind, Authenticator, Identity, ProtectedResource,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::{
    Error, Unbound,
    claims::ClaimRules,
    clock::Clock,
    credentials::{Credentials, Scheme},
    discovery::Metadata,
    fetch::Fetcher,
    json::parse_object,
    shares::{Peer, Shares},
    token_cache::{TokenCache, TokenHash},
    url::SecureUrl,
};

/// The default maximum number of cached tokens, and the same number of refused ones.
const CACHED_TOKENS: usize = 10_000;

/// The default time for which an active token is cached, and the time for which a refused one is cached, in seconds.
const ACTIVE: f64 = 60.0;
const REFUSED: f64 = 10.0;

/// The maximum number of requests to the issuer at once. Further ones wait.
const MAX_REQUESTS: usize = 64;

/// The maximum number of requests that wait or are sent. A peer that uses its share is refused, so that tokens that it has
/// invented let others wait for the time of three requests at most.
const MAX_WAITING: usize = 4 * MAX_REQUESTS;

/// The time after which a client may repeat a request that the issuer could not decide.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Accepts access tokens that the issuer confirms when it is asked. Tokens may have any form, and may be revoked.
///
/// A token is accepted if the issuer says that it is `active`, and if its response names the resource, or another
/// accepted [`audience`](Self::with_audience), in `aud`, a subject in `sub`, and no other issuer in `iss`. Tokens that are
/// bound to a key of the client (`cnf`) are not accepted, and neither are refresh tokens, which some issuers also call
/// `active` (`token_use`).
///
/// Responses are cached by the hash of the token: active ones for a minute, but never beyond `exp`, others for 10
/// seconds. A revoked token is therefore accepted for up to a minute; see [`cache_for`](Self::cache_for). At most 64
/// requests to the issuer are in progress, and 192 more wait; a single peer may use 3/4 of what other peers leave free.
/// Further clients, and all clients while the issuer does not respond, receive the status 503.
///
/// ```no_run
/// # use mcp_runtime::Server;
/// use mcp_auth::{ClientCredentials, Introspection};
///
/// #[mcp_runtime::server]
/// async fn main(server: Server) -> Result<Server, Box<dyn std::error::Error>> {
///     let credentials = ClientCredentials::basic("notes-server", std::env::var("NOTES_CLIENT_SECRET")?);
///     let issuer = Introspection::discover("https://id.example.com", credentials).await?;
///     Ok(server.authenticate(issuer.resource("https://mcp.example.com/mcp")))
/// }
/// ```
///
/// See [RFC 7662](https://www.rfc-editor.org/rfc/rfc7662).
pub struct Introspection {
    endpoint: SecureUrl,
    credentials: ClientCredentials,
    fetcher: Fetcher,
    clock: Clock,
    rules: ClaimRules,
    cache_for: f64,
    active: TokenCache<Identity>,
    /// Separate, so that invalid tokens do not evict valid ones.
    refused: TokenCache<AuthenticationError>,
    requests: Semaphore,
    waiting: Shares,
}

/// The credentials with which the server authenticates to an issuer.
#[derive(Clone)]
pub struct ClientCredentials {
    id: String,
    secret: String,
    in_form: bool,
}

impl ClientCredentials {
    /// Sends id and secret in the `Authorization` header (`client_secret_basic`).
    pub fn basic(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { id: id.into(), secret: secret.into(), in_form: false }
    }

    /// Sends id and secret in the form (`client_secret_post`).
    pub fn post(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { in_form: true, ..Self::basic(id, secret) }
    }

    #[cfg(feature = "server")]
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the headers and the form of a request with these credentials.
    pub(crate) fn authenticate(&self, mut form: String) -> (HeaderMap, String) {
        let (id, secret) = (encode(&self.id), encode(&self.secret));
        let mut headers = HeaderMap::new();
        if self.in_form {
            form.push_str(&format!("&client_id={id}&client_secret={secret}"));
        } else {
            let credentials = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
            let mut value = HeaderValue::try_from(credentials).expect("base64 consists of visible characters");
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        (headers, form)
    }
}

/// Omits the secret.
impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Introspection {
    /// Discovers an issuer, like [`Jwt::discover`](crate::Jwt::discover).
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata is not available, or if it has no introspection endpoint.
    pub async fn discover(issuer: impl Into<String>, credentials: ClientCredentials) -> Result<Unbound<Self>, Error> {
        let (issuer, fetcher) = (issuer.into(), Fetcher::new());
        let metadata = Metadata::fetch(&fetcher, &SecureUrl::parse(&issuer)?).await?;
        let endpoint = metadata.endpoint("introspection_endpoint")?;
        Ok(Self::unbound(issuer, endpoint, credentials, fetcher, Clock::default()))
    }

    /// Asks an issuer at this URL.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, or is neither `https` nor on the loopback interface.
    pub fn endpoint(
        issuer: impl Into<String>,
        url: &str,
        credentials: ClientCredentials,
    ) -> Result<Unbound<Self>, Error> {
        let endpoint = SecureUrl::parse(url)?;
        Ok(Self::unbound(issuer.into(), endpoint, credentials, Fetcher::new(), Clock::default()))
    }

    pub(crate) fn unbound(
        issuer: String,
        endpoint: SecureUrl,
        credentials: ClientCredentials,
        fetcher: Fetcher,
        clock: Clock,
    ) -> Unbound<Self> {
        Unbound(Self {
            endpoint,
            credentials,
            fetcher,
            clock,
            rules: ClaimRules::new(issuer.into(), String::new()),
            cache_for: ACTIVE,
            active: TokenCache::new(CACHED_TOKENS),
            refused: TokenCache::new(CACHED_TOKENS),
            requests: Semaphore::new(MAX_REQUESTS),
            waiting: Shares::new(MAX_WAITING),
        })
    }

    /// Adds an audience that is accepted beside the resource, for issuers that cannot put the URL of the resource into tokens.
    ///
    /// Every token with this audience is accepted, so it must not identify any other service.
    #[must_use]
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audience.add(audience.into());
        self
    }

    /// Reads the scopes from another member of the response. See [`Jwt::scope_claim`](crate::Jwt::scope_claim).
    #[must_use]
    pub fn scope_claim(mut self, claim: impl Into<String>) -> Self {
        self.rules.set_scope_claim(claim.into());
        self
    }

    /// Sets for how long an active token is not asked about again, and so for how long it may be used after it was
    /// revoked. Default: one minute; at most one hour.
    #[must_use]
    pub fn cache_for(mut self, time: Duration) -> Self {
        self.cache_for = time.min(Duration::from_secs(60 * 60)).as_secs_f64();
        self
    }

    /// Sets how many active tokens are cached, and how many others, with at most 4 KiB for each on average. Default:
    /// 10,000. With 0, the issuer is asked for every request.
    #[must_use]
    pub fn cache(mut self, max_tokens: usize) -> Self {
        self.active = TokenCache::new(max_tokens);
        self.refused = TokenCache::new(max_tokens);
        self
    }

    async fn identify(&self, request: &Parts) -> Result<Identity, AuthenticationError> {
        let Credentials { scheme: Scheme::Bearer, token } = Credentials::of(request)? else {
            return Err(AuthenticationError::missing());
        };
        let hash = TokenHash::of(token);
        if let Some(known) = self.known(&hash) {
            return known;
        }
        let overloaded = || unavailable("too many requests to the issuer are in progress".to_owned());
        let _share = self.waiting.try_acquire(Peer::of(&request.extensions)).ok_or_else(overloaded)?;
        let permit = tokio::time::timeout(self.fetcher.timeout, self.requests.acquire()).await;
        let _permit = permit.map_err(|_| overloaded())?;
        // Another request may have asked about the same token in the meantime.
        if let Some(known) = self.known(&hash) {
            return known;
        }
        let now = self.clock.unix();
        let result = self.ask(token).await;
        match &result {
            Ok((identity, expiry, memory)) => {
                let until = expiry.unwrap_or(f64::INFINITY).min(now + self.cache_for);
                self.active.insert(hash, identity.clone(), *memory, until, 0);
            }
            Err(error) if error.kind() == AuthenticationErrorKind::Invalid => {
                self.refused.insert(hash, error.clone(), 512, now + REFUSED, 0);
            }
            Err(_) => {}
        }
        result.map(|(identity, ..)| identity)
    }

    fn known(&self, token: &TokenHash) -> Option<Result<Identity, AuthenticationError>> {
        let now = self.clock.unix();
        let active = self.active.get(token, 0, now).map(Ok);
        active.or_else(|| self.refused.get(token, 0, now).map(Err))
    }

    /// Returns the identity with its expiry and its approximate size.
    async fn ask(&self, token: &str) -> Result<(Identity, Option<f64>, usize), AuthenticationError> {
        let form = format!("token={}&token_type_hint=access_token", encode(token));
        let (headers, form) = self.credentials.authenticate(form);
        let sent = self.fetcher.post(&self.endpoint, headers, form).await;
        let response = sent.and_then(|(status, response)| response.expect_ok(status));
        let response = response.map_err(|error| unavailable(error.reason))?;
        let claims = parse_object(&response.body).map_err(unavailable)?;
        let (identity, expiry) = self.check(claims)?;
        Ok((identity, expiry, 512 + response.body.len() * 4))
    }

    fn check(&self, claims: Map<String, Value>) -> Result<(Identity, Option<f64>), AuthenticationError> {
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(AuthenticationError::invalid("the token is not active"));
        }
        if claims.contains_key("iss") {
            self.rules.check_issuer(&claims)?;
        }
        ClaimRules::check_use(&claims)?;
        self.rules.audience.check(claims.get("aud"))?;
        let expiry = self.rules.check_times(&claims, &self.clock)?;
        if claims.contains_key("cnf") {
            let message = "the token is bound to a key in a way that this server cannot verify";
            return Err(AuthenticationError::invalid(message));
        }
        Ok((self.rules.identity(claims, expiry)?, expiry))
    }
}

impl Unbound<Introspection> {
    /// Sets the URL of the server as clients know it, such as `https://mcp.example.com/mcp`. It is the audience that
    /// tokens must have, and the resource that clients are told to request tokens for.
    pub fn resource(mut self, url: impl Into<String>) -> Introspection {
        let rules = &mut self.0.rules;
        *rules = ClaimRules::new(Arc::clone(&rules.issuer), url.into());
        self.0
    }
}

impl Authenticator for Introspection {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(self.identify(request))
    }

    fn protected_resource(&self) -> ProtectedResource {
        let rules = &self.rules;
        ProtectedResource::new().resource(rules.audience.resource()).with_authorization_server(&*rules.issuer)
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("endpoint", &self.endpoint)
            .field("credentials", &self.credentials)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

fn encode(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

fn unavailable(reason: String) -> AuthenticationError {
    AuthenticationError::unavailable(RETRY_AFTER, "the issuer of the token is temporarily unavailable")
        .with_detail(reason)
}
