//! Everything that has ended before it expires: grants, tokens of machines, and signing keys.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;
use mcp_runtime::backend::BackendError;

use super::{inner::Inner, random, store::Limits};
use crate::claims::MAX_LEEWAY;

/// The maximum number of entries, in the memory of each process and in the store. Older ones leave the memory, and further
/// ones are not announced to other processes: their access tokens are accepted until they expire.
const MAX_ENDED: usize = 10_000;

/// The maximum number of withdrawn signing keys, which are announced although that many grants have ended.
const MAX_KEYS: usize = 100;

/// The maximum number of entries of a user or of a machine in the store.
const MAX_OF_SUBJECT: usize = 1_000;

/// The time after which the entries of other processes are read again, and after which a failed attempt is repeated.
const INTERVAL: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(5);

/// The group of the records, whose names are the entries.
const KIND: &str = "ended";

/// The beginning of the entry of a signing key.
const KEY: &str = "key/";

/// The identifiers of grants and of tokens of machines that have ended, and of signing keys that were withdrawn, by any of
/// the processes that share the store.
pub(super) struct Ended {
    known: Mutex<LruCache<String, ()>>,
    /// The time of the next read.
    next_read: tokio::sync::Mutex<Option<Instant>>,
}

impl Default for Ended {
    fn default() -> Self {
        let known = LruCache::new(NonZeroUsize::new(MAX_ENDED).unwrap_or(NonZeroUsize::MIN));
        Self { known: Mutex::new(known), next_read: tokio::sync::Mutex::default() }
    }
}

impl Ended {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    fn insert(&self, id: &str) {
        self.lock().put(id.to_owned(), ());
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, ()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rejects a grant of a subject, or the token of a machine, from now on: at this process at once, and at the others when they
/// read the entries again.
pub(super) async fn add(server: &Inner, id: &str, subject: &str) -> Result<(), BackendError> {
    server.ended.insert(id);
    let window = server.options.access_token_lifetime + MAX_LEEWAY;
    let limits = Limits { per_account: MAX_OF_SUBJECT, total: MAX_ENDED, window };
    if !server.store.insert(KIND, id, &random::hash(subject), limits).await? {
        tracing::warn!("so many grants have ended that access tokens of some are accepted until they expire");
    }
    Ok(())
}

/// Lets the other processes read the signing keys again. A process that is idle for so long reads them because they are
/// old.
///
/// # Errors
///
/// Returns an error if the store is not available, or if too many keys were withdrawn.
pub(super) async fn add_key(server: &Inner, id: &str, lifetime: Duration) -> Result<(), BackendError> {
    let limits = Limits { per_account: MAX_KEYS, total: MAX_ENDED + MAX_KEYS, window: lifetime };
    let is_announced = server.store.insert(KIND, &format!("{KEY}{id}"), "", limits).await?;
    if is_announced { Ok(()) } else { Err(BackendError::Full) }
}

/// Reads the entries of other processes, if it is time. While the store fails, the known ones remain in use.
pub(super) async fn follow(server: &Inner) {
    let mut next_read = server.ended.next_read.lock().await;
    if next_read.is_some_and(|next| server.clock.monotonic() < next) {
        return;
    }
    // In case the read is dropped.
    *next_read = Some(server.clock.monotonic() + RETRY);
    let result = read(server).await;
    if let Err(error) = &result {
        tracing::warn!(%error, "ended grants cannot be read, so those of other processes are accepted until they expire");
    }
    *next_read = Some(server.clock.monotonic() + if result.is_ok() { INTERVAL } else { RETRY });
}

async fn read(server: &Inner) -> Result<(), crate::Error> {
    let names = server.store.names(KIND, MAX_ENDED + MAX_KEYS).await.map_err(crate::Error::records)?;
    let mut has_new_keys = false;
    for name in names.iter().filter(|name| !server.ended.contains(name)) {
        if name.starts_with(KEY) {
            has_new_keys = true;
        } else {
            server.ended.insert(name);
        }
    }
    if has_new_keys {
        server.keys.read_again().await?;
        names.iter().filter(|name| name.starts_with(KEY)).for_each(|name| server.ended.insert(name));
    }
    Ok(())
}
