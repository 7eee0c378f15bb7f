//! The keys of an issuer, which change.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mcp_runtime::auth::AuthenticationError;
use tokio::sync::watch;

use crate::{
    Error, JwkSet,
    clock::Clock,
    discovery::Metadata,
    fetch::{Fetcher, Response},
    jose::Jws,
    url::SecureUrl,
};

/// The minimum time between two attempts to fetch keys.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// The bounds of the time for which keys are used before they are fetched again, and its default.
const MIN_LIFETIME: Duration = Duration::from_secs(5 * 60);
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The additional time for which keys are used while the issuer does not respond.
const MAX_STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// Keys that are fetched from an issuer.
///
/// They are fetched again when three quarters of their lifetime have passed, and when a token names an unknown key. At
/// most one request is in progress, and at most one begins within [`MIN_INTERVAL`], so tokens with invented keys do not
/// cause a flood.
pub(crate) struct IssuerKeys {
    issuer: SecureUrl,
    fetcher: Fetcher,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    address: SecureUrl,
    keys: Arc<JwkSet>,
    /// Changes with the keys.
    generation: u64,
    fetched_at: Instant,
    lifetime: Duration,
    attempted_at: Instant,
    /// Whether the last attempt failed.
    failed: bool,
    /// Closed when the attempt in progress ends.
    running: Option<watch::Receiver<()>>,
}

impl IssuerKeys {
    /// Discovers an issuer and fetches its keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata or the keys are not available.
    pub(crate) async fn discover(issuer: SecureUrl, fetcher: Fetcher, clock: Clock) -> Result<Self, Error> {
        let address = Metadata::fetch(&fetcher, &issuer).await?.endpoint("jwks_uri")?;
        let fetched = fetch_keys(&fetcher, &address).await;
        let (keys, lifetime) = fetched.map_err(|reason| Error::keys(address.as_str(), reason))?;
        let now = clock.monotonic();
        let state = State {
            address,
            keys: Arc::new(keys),
            generation: 0,
            fetched_at: now,
            lifetime,
            attempted_at: now,
            failed: false,
            running: None,
        };
        Ok(Self { issuer, fetcher, clock, state: Mutex::new(state) })
    }

    #[cfg(test)]
    pub(crate) fn is_fetching(&self) -> bool {
        self.lock().running.as_ref().is_some_and(|running| running.has_changed().is_ok())
    }

    /// Returns a number that changes with the keys, and begins to fetch them if they are due. Returns `None` if the keys
    /// may no longer be used.
    pub(crate) fn generation(self: &Arc<Self>) -> Option<u64> {
        let (_, generation, usable) = self.current();
        usable.then_some(generation)
    }

    /// Verifies the signature of a token, and returns the generation of the keys that were used.
    ///
    /// # Errors
    ///
    /// Returns an error if the signature is invalid, or if the key is unknown and the issuer does not respond.
    pub(crate) async fn verify(self: &Arc<Self>, token: &Jws<'_>) -> Result<u64, AuthenticationError> {
        let mut waited = false;
        loop {
            let (keys, generation, usable) = self.current();
            let result = Some(keys).filter(|_| usable).and_then(|keys| keys.verify(token));
            // A failure may be due to a change of the keys, unless the token names a known key.
            match result {
                Some(Ok(())) => return Ok(generation),
                Some(Err(reason)) if waited || token.key_id().is_some() => {
                    return Err(AuthenticationError::invalid(reason));
                }
                _ => {}
            }
            let running = if waited { None } else { self.refresh() };
            let Some(mut running) = running else { return Err(self.unknown_key(result)) };
            // The sender sends nothing, and is dropped at the end.
            let ended = tokio::time::timeout(self.fetcher.timeout, running.changed()).await;
            if ended.is_err() {
                return Err(keys_unavailable());
            }
            waited = true;
        }
    }

    fn unknown_key(&self, result: Option<Result<(), &'static str>>) -> AuthenticationError {
        if self.lock().failed {
            return keys_unavailable();
        }
        AuthenticationError::invalid(result.and_then(Result::err).unwrap_or("the key of the token is unknown"))
    }

    /// Returns the keys, their generation, and whether they may still be used. Begins to fetch them if they are due.
    fn current(self: &Arc<Self>) -> (Arc<JwkSet>, u64, bool) {
        let (current, due) = {
            let state = self.lock();
            let age = self.clock.monotonic().duration_since(state.fetched_at);
            let usable = age < state.lifetime + MAX_STALE;
            ((Arc::clone(&state.keys), state.generation, usable), age > state.lifetime / 4 * 3)
        };
        if due {
            self.refresh();
        }
        current
    }

    /// Begins to fetch the keys. Returns `None` if the last attempt began less than [`MIN_INTERVAL`] ago and has ended.
    fn refresh(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut state = self.lock();
        if let Some(running) = state.running.clone().filter(|running| running.has_changed().is_ok()) {
            return Some(running);
        }
        let now = self.clock.monotonic();
        if now.duration_since(state.attempted_at) < MIN_INTERVAL {
            return None;
        }
        let (sender, receiver) = watch::channel(());
        state.attempted_at = now;
        state.running = Some(receiver.clone());
        let (keys, address) = (Arc::clone(self), state.address.clone());
        tokio::spawn(async move {
            keys.fetch(address).await;
            drop(sender);
        });
        Some(receiver)
    }

    async fn fetch(&self, address: SecureUrl) {
        let fetched = match fetch_keys(&self.fetcher, &address).await {
            Ok((keys, lifetime)) => Ok((address, keys, lifetime)),
            Err(reason) => self.fetch_from_new_address(reason).await,
        };
        let mut state = self.lock();
        state.failed = fetched.is_err();
        match fetched {
            Ok((address, keys, lifetime)) => {
                if *state.keys != keys {
                    tracing::info!(issuer = %self.issuer, "the keys of the issuer have changed");
                    state.keys = Arc::new(keys);
                    state.generation += 1;
                }
                (state.address, state.lifetime, state.fetched_at) = (address, lifetime, self.clock.monotonic());
            }
            Err(reason) => {
                drop(state);
                tracing::warn!(issuer = %self.issuer, reason, "fetching the keys failed, known keys remain in use");
            }
        }
    }

    /// Fetches the keys from where the metadata says that they are now.
    async fn fetch_from_new_address(&self, reason: String) -> Result<(SecureUrl, JwkSet, Duration), String> {
        let metadata = Metadata::fetch(&self.fetcher, &self.issuer).await;
        let address = metadata.and_then(|metadata| metadata.endpoint("jwks_uri"));
        let address = address.map_err(|error| format!("{reason}; {error}"))?;
        let (keys, lifetime) = fetch_keys(&self.fetcher, &address).await?;
        Ok((address, keys, lifetime))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKeys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

fn keys_unavailable() -> AuthenticationError {
    AuthenticationError::unavailable(MIN_INTERVAL, "the keys of the issuer are temporarily unavailable")
}

async fn fetch_keys(fetcher: &Fetcher, address: &SecureUrl) -> Result<(JwkSet, Duration), String> {
    let Response { body, max_age } = fetcher.get(address).await?;
    let lifetime = max_age.unwrap_or(DEFAULT_LIFETIME).clamp(MIN_LIFETIME, MAX_LIFETIME);
    Ok((JwkSet::parse(&body)?, lifetime))
}
