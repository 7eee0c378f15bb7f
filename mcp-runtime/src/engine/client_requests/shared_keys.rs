//! State keys in the backend that the processes of a service share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    key_ring::{KeyRing, ROTATION},
    state_key::{KEY_ID_LEN, StateKey},
};
use crate::{
    backend::{BACKEND_TIMEOUT, Backend, BackendClock, BackendError, Backoff, Record, RecordCondition, respond},
    error::Fault,
    race::race,
};

/// The record of the keys. Its value is the JSON of a [`KeyRing`].
const RECORD: &str = "mcp/1/state-keys";
/// The time between two reads of the record.
const INTERVAL: Duration = Duration::from_secs(60);
/// The minimum time between two reads that states with unknown keys cause.
const MIN_INTERVAL: Duration = Duration::from_secs(3);
/// The number of attempts to change the record while other processes change it, too.
const MAX_ATTEMPTS: usize = 16;

/// The keys that all processes of a service share: read, created and rotated in the background.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    backend: Arc<dyn Backend>,
    clock: Arc<BackendClock>,
    /// How long a state lives.
    ttl: Duration,
    known: Mutex<Known>,
    /// Wakes [`run`](Self::run).
    unknown_key: Notify,
    /// Wakes [`ready`](Self::ready) after each read.
    was_read: Notify,
}

#[derive(Debug, Default)]
struct Known {
    ring: KeyRing,
    /// The time of the last successful read.
    read: Option<Instant>,
    /// Whether the last read has failed.
    has_failed: bool,
}

impl SharedKeys {
    pub(super) fn new(backend: Arc<dyn Backend>, clock: Arc<BackendClock>, ttl: Duration) -> Self {
        Self { backend, clock, ttl, known: Mutex::default(), unknown_key: Notify::new(), was_read: Notify::new() }
    }

    /// Returns whether there is a key that seals.
    pub(super) fn is_ready(&self) -> bool {
        self.known().ring.sealing(self.clock.now()).is_some()
    }

    /// Waits for at most [`BACKEND_TIMEOUT`] until there is a key that seals. Does not wait for a backend that has failed.
    pub(super) async fn ready(&self) {
        let was_read = async {
            loop {
                // Registered before the check, so that no read is missed.
                let was_read = self.was_read.notified();
                if self.is_ready() || self.known().has_failed {
                    return;
                }
                self.unknown_key.notify_one();
                was_read.await;
            }
        };
        let _ = timeout(BACKEND_TIMEOUT, was_read).await;
    }

    /// Returns the key that seals.
    ///
    /// # Errors
    ///
    /// Fails if the backend has never responded.
    pub(super) fn sealing(&self) -> Result<StateKey, Fault> {
        let key = self.known().ring.sealing(self.clock.now()).cloned();
        key.ok_or_else(|| {
            self.unknown_key.notify_one();
            BackendError::Unavailable("the state keys have not been read yet".to_owned()).into()
        })
    }

    /// Returns the key with an id, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the key may be newer than the keys that were read last. The keys are then read again, and the client
    /// may retry. Invented ids cause at most one read per [`MIN_INTERVAL`].
    pub(super) fn find(&self, id: [u8; KEY_ID_LEN]) -> Result<Option<StateKey>, Fault> {
        let known = self.known();
        let key = known.ring.find(id).cloned();
        if key.is_some() || known.read.is_some_and(|read| read.elapsed() < MIN_INTERVAL) {
            return Ok(key);
        }
        self.unknown_key.notify_one();
        Err(Fault::overloaded("the key of `requestState` is unknown, and keys are being read again: retry"))
    }

    /// Keeps the keys up to date. Never completes.
    pub(super) async fn run(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.refresh().await {
                Ok(()) => {
                    backoff.reset();
                    let start = Instant::now();
                    let _ = race(tokio::time::sleep(INTERVAL), self.unknown_key.notified()).await;
                    tokio::time::sleep_until(start + MIN_INTERVAL).await;
                }
                Err(error) => {
                    self.known().has_failed = true;
                    self.was_read.notify_waiters();
                    if backoff.is_reset() {
                        tracing::warn!(%error, "the keys for request states cannot be read: retrying");
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// Reads the keys, and changes them if one is due or if the record lacks keys that this process knows.
    async fn refresh(&self) -> Result<(), BackendError> {
        // States contain times, so no key is used before the time is known.
        respond(self.clock.update(&*self.backend, 0)).await?;
        for _ in 0..MAX_ATTEMPTS {
            let record = respond(self.backend.get(RECORD)).await?;
            let stored = record.as_ref().map_or_else(|| Ok(KeyRing::default()), decode)?;
            let now = self.clock.now();
            let mut ring = stored.clone();
            ring.unite(&self.known().ring, now, self.ttl);
            if ring.is_due(now) {
                let no_key = || BackendError::Unavailable("no random bytes for a state key".to_owned());
                ring.add(StateKey::random().ok_or_else(no_key)?, now);
            }
            if ring != stored && !self.write(&ring, record).await? {
                continue;
            }
            *self.known() = Known { ring, read: Some(Instant::now()), has_failed: false };
            self.was_read.notify_waiters();
            return Ok(());
        }
        Err(BackendError::Unavailable("other processes keep changing the state keys".to_owned()))
    }

    /// Replaces the record that was read. Returns `false` if another process was faster.
    async fn write(&self, ring: &KeyRing, read: Option<Record>) -> Result<bool, BackendError> {
        let condition = read.map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
        // Text and numbers can always be encoded.
        let value = serde_json::to_vec(ring).unwrap_or_default();
        // The next key is due before the record expires, and no state outlives it.
        let ttl = (ROTATION * 2).saturating_add(self.ttl);
        Ok(respond(self.backend.set(RECORD, condition, value, ttl)).await?.is_some())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(record: &Record) -> Result<KeyRing, BackendError> {
    let malformed = |_| BackendError::Unavailable(format!("the record `{RECORD}` is malformed"));
    serde_json::from_slice(&record.value).map_err(malformed)
}
