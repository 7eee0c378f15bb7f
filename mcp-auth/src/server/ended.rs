use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use lru::LruCache;

/// The maximum number of grants that are remembered. The access tokens of older ones are accepted until they expire.
const MAX_GRANTS: usize = 10_000;

/// The grants that this process has ended, whose access tokens may not have expired yet.
pub(super) struct EndedGrants(Mutex<LruCache<String, ()>>);

impl Default for EndedGrants {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(MAX_GRANTS).unwrap_or(NonZeroUsize::MIN))))
    }
}

impl EndedGrants {
    pub(super) fn insert(&self, grant: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(grant.to_owned(), ());
    }

    pub(super) fn contains(&self, grant: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(grant)
    }
}
