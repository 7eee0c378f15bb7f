//! The keys that sign access tokens, which the server creates and replaces itself.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mcp_runtime::{auth::AuthenticationError, backend::RecordCondition};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{random, store::Store};
use crate::{
    Error, JwkSet,
    clock::Clock,
    jose::Jws,
    jwt::{KeySource, VerifyFuture},
};

/// The time for which a key signs tokens.
const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The time for which a key verifies tokens after another has replaced it: longer than any token is valid.
const OVERLAP: Duration = Duration::from_secs(2 * 60 * 60);

/// The minimum time between two attempts to read the keys.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The number of attempts if other processes change the keys at the same time.
const ATTEMPTS: usize = 5;

/// The longest pause between these attempts.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// The keys of the server. All processes with the same store have the same keys.
pub(super) struct SigningKeys {
    store: Store,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    newest: Arc<SigningKey>,
    keys: StoredKeys,
    public: Arc<JwkSet>,
    /// Changes with the keys.
    generation: u64,
    /// The time of the last attempt to read the keys.
    attempted_at: Instant,
    /// Whether that attempt has failed, or has not ended yet.
    is_failing: bool,
}

struct SigningKey {
    id: String,
    pair: Ed25519KeyPair,
    created: f64,
}

/// The value of the record, oldest key first.
#[derive(Clone, Serialize, Deserialize, Default)]
struct StoredKeys(Vec<StoredKey>);

#[derive(Clone, Serialize, Deserialize)]
struct StoredKey {
    id: String,
    pkcs8: String,
    /// Seconds since the Unix epoch.
    created: f64,
}

impl StoredKeys {
    /// Returns the time at which the oldest key stops verifying tokens, if there is a newer one.
    fn ends_at(&self) -> Option<f64> {
        Some(self.0.get(1)?.created + OVERLAP.as_secs_f64())
    }

    /// Removes the keys that do not verify tokens any more.
    fn remove_ended(&mut self, clock: &Clock) {
        while self.ends_at().is_some_and(|end| end <= clock.unix()) {
            self.0.remove(0);
        }
    }
}

impl SigningKeys {
    /// Reads the keys of the store, or creates the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub(super) async fn load(store: Store, clock: Clock) -> Result<Self, Error> {
        let (state, _) = read(&store, &clock, false).await?;
        Ok(Self { store, clock, state: Mutex::new(state) })
    }

    /// Signs an access token with the newest key, which is replaced first if it is due. While the store fails, the known
    /// key remains in use.
    pub(super) async fn sign(&self, claims: &Value) -> String {
        self.refresh().await;
        let key = Arc::clone(&self.lock().newest);
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": key.id});
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(key.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Reads the keys again, unless the last attempt was just now. Returns whether it has.
    async fn reload(&self) -> Result<bool, Error> {
        {
            let (now, mut state) = (self.clock.monotonic(), self.lock());
            if now.duration_since(state.attempted_at) < MIN_INTERVAL {
                return Ok(false);
            }
            (state.attempted_at, state.is_failing) = (now, true);
        }
        self.read_again().await?;
        Ok(true)
    }

    /// Reads the keys again.
    pub(super) async fn read_again(&self) -> Result<(), Error> {
        let (state, _) = read(&self.store, &self.clock, false).await?;
        self.replace(state);
        Ok(())
    }

    /// Replaces all keys by a new one, so that no token that was signed before is valid. Returns the identifiers of the
    /// keys, and the time for which other processes may know them.
    pub(super) async fn revoke(&self) -> Result<(Vec<String>, Duration), Error> {
        let (state, revoked) = read(&self.store, &self.clock, true).await?;
        self.replace(state);
        Ok((revoked, ROTATION + OVERLAP))
    }

    fn replace(&self, new: State) {
        let mut state = self.lock();
        let generation = state.generation + u64::from(new.public != state.public);
        *state = State { generation, ..new };
    }

    /// Forgets keys that have ended, and reads the keys again if the newest is due: another process may have replaced it.
    async fn refresh(&self) {
        let is_due = {
            let mut state = self.lock();
            if state.keys.ends_at().is_some_and(|end| end <= self.clock.unix()) {
                let mut keys = state.keys.clone();
                keys.remove_ended(&self.clock);
                if let Ok(new) = state_of(keys, &self.clock) {
                    let (generation, attempted_at) = (state.generation + 1, state.attempted_at);
                    *state = State { generation, attempted_at, is_failing: state.is_failing, ..new };
                }
            }
            is_due(state.newest.created, &self.clock)
        };
        if is_due && let Err(error) = self.reload().await {
            tracing::warn!(%error, "the signing key cannot be replaced");
        }
    }

    /// Verifies a token, and looks for its key in the store if it is unknown: another process may have created it.
    async fn find_and_verify(&self, token: &Jws<'_>) -> Result<u64, AuthenticationError> {
        self.refresh().await;
        let known = || {
            let state = self.lock();
            (Arc::clone(&state.public), state.generation)
        };
        let (public, generation) = known();
        if let Some(result) = public.verify(token) {
            return result.map(|()| generation).map_err(AuthenticationError::invalid);
        }
        let unknown = || AuthenticationError::invalid("the key of the token is unknown");
        let unavailable = || AuthenticationError::unavailable(MIN_INTERVAL, "the keys are temporarily unavailable");
        if !self.reload().await.map_err(|error| unavailable().with_detail(error.to_string()))? {
            return Err(if self.lock().is_failing { unavailable() } else { unknown() });
        }
        let (public, generation) = known();
        public.verify(token).ok_or_else(unknown)?.map(|()| generation).map_err(AuthenticationError::invalid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeySource for SigningKeys {
    fn generation(&self) -> u64 {
        self.lock().generation
    }

    fn verify<'a>(&'a self, token: &'a Jws<'a>) -> VerifyFuture<'a> {
        Box::pin(self.find_and_verify(token))
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKeys").field("newest", &self.lock().newest.id).finish_non_exhaustive()
    }
}

fn is_due(created: f64, clock: &Clock) -> bool {
    clock.unix() - created >= ROTATION.as_secs_f64()
}

/// Reads the keys, and replaces the newest if it is due, or all of them. Of several processes that do so, one succeeds.
/// Returns the identifiers of the keys that were revoked.
async fn read(store: &Store, clock: &Clock, revokes: bool) -> Result<(State, Vec<String>), Error> {
    clock.follow(store.records()).await.map_err(Error::records)?;
    for _ in 0..ATTEMPTS {
        let found = store.get::<StoredKeys>("keys", "signing").await.map_err(Error::records)?;
        let (mut keys, condition) = match found {
            Some((keys, version)) => (keys, RecordCondition::Version(version)),
            None => (StoredKeys::default(), RecordCondition::Absent),
        };
        keys.remove_ended(clock);
        let mut revoked = Vec::new();
        if revokes {
            revoked = keys.0.drain(..).map(|key| key.id).collect();
        } else if keys.0.last().is_some_and(|newest| !is_due(newest.created, clock)) {
            return Ok((state_of(keys, clock)?, revoked));
        }
        keys.0.push(generate(clock)?);
        let lifetime = (ROTATION + OVERLAP) * 100;
        let written = store.set("keys", "signing", condition, &keys, lifetime).await.map_err(Error::records)?;
        if written {
            return Ok((state_of(keys, clock)?, revoked));
        }
        random::pause(MAX_PAUSE).await;
    }
    Err(Error::options("the signing keys in the store keep changing".to_owned()))
}

fn generate(clock: &Clock) -> Result<StoredKey, Error> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| Error::Random)?;
    let pkcs8 = BASE64_URL_SAFE_NO_PAD.encode(document.as_ref());
    let id = BASE64_URL_SAFE_NO_PAD.encode(random::bytes::<12>()?);
    Ok(StoredKey { id, pkcs8, created: clock.unix() })
}

fn state_of(keys: StoredKeys, clock: &Clock) -> Result<State, Error> {
    let broken = || Error::options("the signing keys in the store are unusable".to_owned());
    let parse = |key: &StoredKey| {
        let pkcs8 = BASE64_URL_SAFE_NO_PAD.decode(&key.pkcs8).map_err(|_| broken())?;
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8).map_err(|_| broken())?;
        Ok(SigningKey { id: key.id.clone(), pair, created: key.created })
    };
    let pairs = keys.0.iter().map(parse).collect::<Result<Vec<_>, Error>>()?;
    let public = pairs.iter().map(|key| {
        let x = BASE64_URL_SAFE_NO_PAD.encode(key.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": key.id, "x": x})
    });
    let public = json!({"keys": public.collect::<Vec<_>>()}).to_string().parse()?;
    let newest = pairs.into_iter().last().ok_or_else(broken)?;
    Ok(State {
        newest: Arc::new(newest),
        keys,
        public: Arc::new(public),
        generation: 0,
        attempted_at: clock.monotonic(),
        is_failing: false,
    })
}
