//! Proofs that the sender of a token possesses a key: RFC 9449 (DPoP).

mod nonces;
mod proof;
mod replays;

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, request::Parts};
use mcp_runtime::{
    auth::{AuthenticationError, Challenge},
    backend::Records,
};

pub(crate) use self::proof::Proof;
use self::{nonces::Nonces, replays::Replays};
use crate::{Error, clock::Clock, jose::Algorithm, url::SecureUrl};

/// The maximum age of proofs, and its default.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);
const DEFAULT_AGE: Duration = Duration::from_secs(60);

/// The default number of proofs that are remembered.
const MAX_PROOFS: usize = 65_536;

/// The groups of the records of proofs: of requests to the resource, and of clients that ask for tokens. They are separate,
/// so that clients leave room for the users of the resource.
pub(crate) const PROOFS: &str = "mcp-runtime-auth/1/proofs";
#[cfg(feature = "server")]
pub(crate) const CLIENT_PROOFS: &str = "mcp-runtime-auth/1/client-proofs";

pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// How proofs of possession are verified. See [`Jwt::dpop`](crate::Jwt::dpop) and
/// [`AuthorizationServerBuilder::dpop`](crate::AuthorizationServerBuilder::dpop).
///
/// A proof is a token that the client signs for each request with the key to which its access token is bound
/// (`cnf.jkt`). It states the method, the URL and the access token of the request. Each proof is accepted once, and only
/// within a minute of its creation, so a stolen access token is useless, and so is a recorded request.
///
/// See [RFC 9449](https://www.rfc-editor.org/rfc/rfc9449).
#[derive(Clone)]
#[must_use]
pub struct Dpop {
    required: bool,
    url: Option<String>,
    max_age: Duration,
    max_proofs: usize,
    nonces: Option<Option<[u8; 32]>>,
    records: Option<Arc<dyn Records>>,
}

impl Dpop {
    /// Accepts tokens that are bound to a key with a proof, and other tokens without.
    pub fn optional() -> Self {
        Self { required: false, url: None, max_age: DEFAULT_AGE, max_proofs: MAX_PROOFS, nonces: None, records: None }
    }

    /// Accepts only tokens that are bound to a key.
    pub fn required() -> Self {
        Self { required: true, ..Self::optional() }
    }

    /// Sets the URL that proofs must state (`htu`). Default: the URL of the resource. Set it if the resource covers more
    /// than the MCP endpoint.
    ///
    /// It is not taken from the request, because proxies change the URL.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets how much the creation of a proof may differ from the time of the server, in both directions. Default: 60
    /// seconds; at most 5 minutes.
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age.min(MAX_AGE);
        self
    }

    /// Sets how many proofs are remembered, to recognize repeated ones. Default: 65,536, about 10 MiB.
    ///
    /// A proof is remembered for twice its maximum age. A principal can use three quarters of what others leave free, with
    /// whatever keys. When it has, its requests receive the status 503.
    pub fn max_proofs(mut self, max_proofs: usize) -> Self {
        self.max_proofs = max_proofs;
        self
    }

    /// Sets where proofs are remembered, so that one that was used at a replica, or before a restart, is recognized at
    /// others. Default: in memory. A store that fails causes the status 503.
    pub fn records(mut self, records: impl Records) -> Self {
        self.records = Some(Arc::new(records));
        self
    }

    /// Requires proofs to contain a nonce of the server, which changes every few minutes. This prevents clients from
    /// creating proofs for later, but it costs the first request of each client a repetition.
    ///
    /// The nonces of one process are unknown to others. Servers with several replicas use
    /// [`nonces_with_key`](Self::nonces_with_key).
    pub fn nonces(mut self) -> Self {
        self.nonces = Some(None);
        self
    }

    /// Like [`nonces`](Self::nonces), with a random key that all replicas share.
    pub fn nonces_with_key(mut self, key: [u8; 32]) -> Self {
        self.nonces = Some(Some(key));
        self
    }

    /// Sets the key of the nonces and the records, unless they are set already.
    #[cfg(feature = "server")]
    pub(crate) fn or(mut self, key: [u8; 32], records: Option<&Arc<dyn Records>>) -> Self {
        self.nonces = self.nonces.map(|set| set.or(Some(key)));
        self.records = self.records.or(records.cloned());
        self
    }
}

/// Omits the key of the nonces.
impl fmt::Debug for Dpop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpop").field("required", &self.required).field("url", &self.url).finish_non_exhaustive()
    }
}

/// Verifies the proofs for a resource.
pub(crate) struct Proofs {
    url: SecureUrl,
    required: bool,
    max_age: Duration,
    nonces: Option<Nonces>,
    replays: Replays,
    clock: Clock,
}

impl Proofs {
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, or if the system has no random numbers.
    pub(crate) fn new(options: Dpop, resource: &str, group: &'static str, clock: Clock) -> Result<Self, Error> {
        let nonces = options.nonces.map(Nonces::new).transpose()?;
        Ok(Self {
            url: SecureUrl::parse(options.url.as_deref().unwrap_or(resource))?,
            required: options.required,
            max_age: options.max_age,
            nonces,
            replays: Replays::new(options.max_age * 2, options.max_proofs, options.records, group),
            clock,
        })
    }

    /// Returns whether tokens without a key are rejected.
    pub(crate) fn required(&self) -> bool {
        self.required
    }

    /// Returns the challenge that names the accepted algorithms.
    pub(crate) fn challenge(&self) -> Challenge {
        Challenge::new("DPoP").with_parameter("algs", &Algorithm::names().join(" "))
    }

    /// Verifies the proof of a request for a token of a principal that is bound to the key with this thumbprint. Returns
    /// the header with a nonce for the next request, if it needs another one.
    ///
    /// # Errors
    ///
    /// Returns an error if the proof is absent or invalid.
    pub(crate) async fn verify(
        &self,
        request: &Parts,
        token: &[u8],
        thumbprint: &str,
        principal: &str,
    ) -> Result<Option<(HeaderName, HeaderValue)>, AuthenticationError> {
        let (proof, next) = self.check(&request.headers, &request.method, &self.url)?;
        proof.check_token(token, thumbprint).map_err(invalid_proof)?;
        self.remember(&proof, principal).await?;
        Ok(next.map(|nonce| (DPOP_NONCE, nonce)))
    }

    /// Verifies the proof of a request to a URL. It is to be [remembered](Self::remember). Returns it with the nonce for the
    /// next request, if that needs another one.
    ///
    /// # Errors
    ///
    /// Returns an error if the proof is absent or invalid.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        method: &Method,
        url: &SecureUrl,
    ) -> Result<(Proof, Option<HeaderValue>), AuthenticationError> {
        let now = self.clock.unix();
        let proof = Proof::of(headers).map_err(invalid_proof)?;
        proof.check_request(method, url).map_err(invalid_proof)?;
        if (now - proof.created).abs() > self.max_age.as_secs_f64() {
            return Err(invalid_proof("the proof was not created just now")
                .with_detail(format!("its `iat` is {:.0} seconds ago", now - proof.created)));
        }
        let next = self.nonces.as_ref().map(|nonces| nonces.check(proof.nonce.as_deref(), now));
        let next = next.transpose().map_err(|nonce| {
            refusal("use_dpop_nonce", "the proof must contain the nonce of the server")
                .with_response_header(DPOP_NONCE, nonce)
        })?;
        Ok((proof, next.flatten()))
    }

    /// Remembers a proof of a principal, so that it is accepted once.
    ///
    /// # Errors
    ///
    /// Returns an error if it was accepted before, or if there is no space.
    pub(crate) async fn remember(&self, proof: &Proof, principal: &str) -> Result<(), AuthenticationError> {
        self.replays.add(principal, &proof.thumbprint, &proof.id, self.clock.monotonic()).await
    }
}

/// Returns the refusal of a token with an error code of RFC 9449.
pub(crate) fn refusal(code: &str, message: &'static str) -> AuthenticationError {
    let challenge = Challenge::new("DPoP").with_parameter("error", code).with_parameter("error_description", message);
    AuthenticationError::invalid(message).with_challenge(challenge)
}

fn invalid_proof(message: &'static str) -> AuthenticationError {
    refusal("invalid_dpop_proof", message)
}

#[cfg(test)]
pub(crate) fn test_nonce(options: Dpop, now: f64) -> HeaderValue {
    let nonces = Nonces::new(options.nonces.flatten()).expect("random numbers");
    nonces.check(None, now).expect_err("without a nonce, there is a new one")
}
