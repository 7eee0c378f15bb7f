//! The verification of tokens.

use std::sync::Arc;

use http::request::Parts;
use mcp_runtime::auth::{AuthenticateFuture, AuthenticationError, Identity};
use serde_json::{Map, Value};

use crate::{
    JwkSet,
    claims::ClaimRules,
    clock::Clock,
    credentials::{Credentials, Scheme},
    dpop::{self, Proofs},
    issuer_keys::IssuerKeys,
    jose::Jws,
    token_cache::{TokenCache, TokenHash},
};

/// The types of access tokens. Many issuers state no type, or only `JWT`.
const TOKEN_TYPES: [Option<&str>; 3] = [None, Some("jwt"), Some("at+jwt")];

/// The keys of an issuer.
#[derive(Debug)]
pub(crate) enum Keys {
    Fixed(JwkSet),
    Issuer(Arc<IssuerKeys>),
    /// The keys of an issuer in this process.
    #[cfg(feature = "server")]
    Shared(Arc<dyn KeySource>),
}

/// Keys that change.
#[cfg(feature = "server")]
pub(crate) trait KeySource: std::fmt::Debug + Send + Sync {
    /// Returns a number that changes with the keys.
    fn generation(&self) -> u64;

    /// Verifies the signature of a token, and returns the generation of the keys that were used.
    fn verify<'a>(&'a self, token: &'a Jws<'a>) -> VerifyFuture<'a>;
}

/// The future of [`KeySource::verify`].
#[cfg(feature = "server")]
pub(crate) type VerifyFuture<'a> =
    std::pin::Pin<Box<dyn Future<Output = Result<u64, AuthenticationError>> + Send + 'a>>;

impl Keys {
    /// Returns the generation of the keys with which cached tokens were verified. Returns `None` without usable keys.
    fn generation(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => Some(0),
            Self::Issuer(keys) => keys.generation(),
            #[cfg(feature = "server")]
            Self::Shared(keys) => Some(keys.generation()),
        }
    }

    async fn verify(&self, token: &Jws<'_>) -> Result<u64, AuthenticationError> {
        match self {
            Self::Fixed(keys) => match keys.verify(token) {
                Some(result) => result.map(|()| 0).map_err(AuthenticationError::invalid),
                None => Err(AuthenticationError::invalid("the key of the token is unknown")),
            },
            Self::Issuer(keys) => keys.verify(token).await,
            #[cfg(feature = "server")]
            Self::Shared(keys) => keys.verify(token).await,
        }
    }
}

/// Verifies tokens.
pub(super) struct Verifier {
    pub(super) keys: Keys,
    pub(super) rules: ClaimRules,
    pub(super) clock: Clock,
    pub(super) cache: TokenCache<VerifiedToken>,
    pub(super) at_jwt_only: bool,
    pub(super) proofs: Option<Proofs>,
}

/// The content of a verified token.
#[derive(Clone)]
pub(super) struct VerifiedToken {
    identity: Identity,
    /// The thumbprint of the key to which the token is bound.
    key: Option<Arc<str>>,
}

impl Verifier {
    pub(super) fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        let credentials = match Credentials::of(request) {
            Ok(credentials) if credentials.scheme == Scheme::Bearer || self.proofs.is_some() => credentials,
            Ok(_) => return ready(Err(AuthenticationError::missing())),
            Err(error) => return ready(Err(error)),
        };
        let hash = TokenHash::of(credentials.token);
        let generation = self.keys.generation();
        match generation.and_then(|generation| self.cache.get(&hash, generation, self.clock.unix())) {
            Some(verified) if self.proofs.is_none() => ready(Ok(verified.identity)),
            known => Box::pin(async move {
                let verified = match known {
                    Some(verified) => verified,
                    None => self.verify(credentials.token, hash).await?,
                };
                self.check_binding(verified, request, credentials.scheme, &hash).await
            }),
        }
    }

    async fn verify(&self, token: &str, hash: TokenHash) -> Result<VerifiedToken, AuthenticationError> {
        let jws = Jws::parse(token).map_err(AuthenticationError::invalid)?;
        self.check_type(&jws)?;
        let claims = jws.claims().map_err(AuthenticationError::invalid)?;
        // Tokens of other issuers neither cost a verification nor cause a request for unknown keys.
        self.rules.check_issuer(&claims)?;
        let generation = self.keys.verify(&jws).await?;
        ClaimRules::check_use(&claims)?;
        self.rules.audience.check(claims.get("aud"))?;
        let expiry = self.rules.check_times(&claims, &self.clock)?;
        let expiry = expiry.ok_or_else(|| AuthenticationError::invalid("the token does not expire"))?;
        let key = self.key_of(&claims)?;
        let verified = VerifiedToken { identity: self.rules.identity(claims, Some(expiry))?, key };
        self.cache.insert(hash, verified.clone(), jws.memory(), expiry, generation);
        Ok(verified)
    }

    fn check_type(&self, token: &Jws<'_>) -> Result<(), AuthenticationError> {
        let kind = token.kind();
        let accepted = if self.at_jwt_only { &TOKEN_TYPES[2..] } else { &TOKEN_TYPES };
        if accepted.contains(&kind.as_deref()) {
            return Ok(());
        }
        Err(AuthenticationError::invalid("the token is not an access token"))
    }

    /// Returns the thumbprint of the key to which a token is bound. Bindings that cannot be verified are errors.
    fn key_of(&self, claims: &Map<String, Value>) -> Result<Option<Arc<str>>, AuthenticationError> {
        let Some(confirmation) = claims.get("cnf") else { return Ok(None) };
        let members = confirmation.as_object().filter(|members| members.len() == 1 && self.proofs.is_some());
        match members.and_then(|members| members.get("jkt")?.as_str()) {
            Some(thumbprint) => Ok(Some(thumbprint.into())),
            None => {
                Err(AuthenticationError::invalid("the token is bound to a key in a way that this server cannot verify"))
            }
        }
    }

    /// Checks that the sender has the key of a token that is bound to one.
    async fn check_binding(
        &self,
        token: VerifiedToken,
        request: &Parts,
        scheme: Scheme,
        hash: &TokenHash,
    ) -> Result<Identity, AuthenticationError> {
        let Some(proofs) = &self.proofs else { return Ok(token.identity) };
        let refused = |message| Err(dpop::refusal("invalid_token", message));
        match (&token.key, scheme) {
            (Some(key), Scheme::Dpop) => {
                let nonce = proofs.verify(request, hash.as_bytes(), key, token.identity.principal()).await?;
                let identity = token.identity;
                Ok(nonce
                    .into_iter()
                    .fold(identity, |identity, (name, value)| identity.with_response_header(name, value)))
            }
            (Some(_), Scheme::Bearer) => refused("the token is bound to a key, so it requires the scheme `DPoP`"),
            (None, Scheme::Dpop) => refused("the token is not bound to a key"),
            (None, Scheme::Bearer) if proofs.required() => refused("the token must be bound to a key"),
            (None, Scheme::Bearer) => Ok(token.identity),
        }
    }
}

fn ready<'a>(result: Result<Identity, AuthenticationError>) -> AuthenticateFuture<'a> {
    Box::pin(std::future::ready(result))
}
