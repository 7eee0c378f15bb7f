//! Everything that has ended before it expires: grants, tokens that clients have revoked, and signing keys.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;
use mcp_runtime::backend::{BackendError, Insertion};

use super::{
    keys::SigningKeys,
    random,
    store::{Limits, Store},
};
use crate::{Error, claims::MAX_LEEWAY, clock::Clock};

/// The maximum number of entries, in the memory of each process and in the store. Older ones leave the memory, and further
/// ones are not announced to other processes: their access tokens are accepted until they expire.
const MAX_ENDED: usize = 10_000;

/// The maximum number of revoked signing keys, which are announced although that many grants have ended.
const MAX_KEYS: usize = 100;

/// The maximum number of entries of a user or of a client in the store.
const MAX_OF_SUBJECT: usize = if cfg!(test) { 100 } else { 1_000 };

/// The time after which the entries of other processes are read again, and after which a failed attempt is repeated.
const INTERVAL: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(5);

/// The group of the records, whose names are the entries.
const KIND: &str = "ended";

/// The beginning of the entry of a signing key.
const KEY: &str = "key/";

/// The identifiers of grants and tokens that have ended, and of signing keys that were revoked, by any of
/// the processes that share the store.
pub(super) struct Ended {
    known: Mutex<LruCache<String, ()>>,
    /// The time of the next read.
    next_read: tokio::sync::Mutex<Option<Instant>>,
    store: Store,
    keys: Arc<SigningKeys>,
    clock: Clock,
    /// The lifetime of access tokens.
    lifetime: Duration,
}

impl Ended {
    pub(super) fn new(store: Store, keys: Arc<SigningKeys>, clock: Clock, lifetime: Duration) -> Self {
        let known = LruCache::new(NonZeroUsize::new(MAX_ENDED).unwrap_or(NonZeroUsize::MIN));
        Self { known: Mutex::new(known), next_read: tokio::sync::Mutex::default(), store, keys, clock, lifetime }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    /// Rejects a grant of a subject, or a token that a client has revoked, from now on: at this process at once, and at the
    /// others when they read the entries again.
    pub(super) async fn add(&self, id: &str, subject: &str) -> Result<(), BackendError> {
        self.insert(id);
        let window = self.lifetime + MAX_LEEWAY;
        let limits = Limits { per_account: MAX_OF_SUBJECT, total: MAX_ENDED, window };
        if let Insertion::Full { .. } = self.store.insert(KIND, id, &random::hash(subject), limits).await? {
            tracing::warn!(
                "too many grants have ended to announce this one: other processes accept its access tokens until they expire"
            );
        }
        Ok(())
    }

    /// Lets the other processes read the signing keys again. A process that is idle for so long reads them because they are
    /// old.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is not available, or if too many keys were revoked.
    pub(super) async fn add_key(&self, id: &str, lifetime: Duration) -> Result<(), BackendError> {
        let limits = Limits { per_account: MAX_KEYS, total: MAX_ENDED + MAX_KEYS, window: lifetime };
        match self.store.insert(KIND, &format!("{KEY}{id}"), "", limits).await? {
            Insertion::Full { .. } => Err(BackendError::Full),
            _ => Ok(()),
        }
    }

    /// Reads the entries of other processes, if it is time. While the store fails, the known ones remain in use.
    pub(super) async fn follow(&self) {
        let mut next_read = self.next_read.lock().await;
        if next_read.is_some_and(|next| self.clock.monotonic() < next) {
            return;
        }
        // In case the read is dropped.
        *next_read = Some(self.clock.monotonic() + RETRY);
        let result = self.read().await;
        if let Err(error) = &result {
            tracing::warn!(%error, "ended grants cannot be read: those of other processes are accepted until they expire");
        }
        *next_read = Some(self.clock.monotonic() + if result.is_ok() { INTERVAL } else { RETRY });
    }

    async fn read(&self) -> Result<(), Error> {
        let names = self.store.names(KIND, MAX_ENDED + MAX_KEYS).await.map_err(Error::records)?;
        let mut has_new_keys = false;
        for name in names.iter().filter(|name| !self.contains(name)) {
            if name.starts_with(KEY) {
                has_new_keys = true;
            } else {
                self.insert(name);
            }
        }
        if has_new_keys {
            self.keys.read_again().await?;
            names.iter().filter(|name| name.starts_with(KEY)).for_each(|name| self.insert(name));
        }
        Ok(())
    }

    fn insert(&self, id: &str) {
        self.lock().put(id.to_owned(), ());
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, ()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
