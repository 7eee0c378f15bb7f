use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use lru::LruCache;

use super::{
    clients::Clients, cookies::Cookies, keys::SigningKeys, options::Options, seal::Sealer, store::Store,
    upstream::Upstream,
};
use crate::{audience::Audience, clock::Clock};

/// The maximum number of ended grants that are remembered. The access tokens of older ones are accepted until they
/// expire.
const MAX_ENDED: usize = 10_000;

/// State shared by all requests to an authorization server.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) audience: Audience,
    pub(super) upstream: Upstream,
    pub(super) clients: Clients,
    pub(super) keys: Arc<SigningKeys>,
    pub(super) ended: EndedGrants,
    pub(super) store: Store,
    pub(super) sealer: Sealer,
    pub(super) cookies: Cookies,
    pub(super) clock: Clock,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("issuer", &self.options.issuer).finish_non_exhaustive()
    }
}

/// The grants that this process has ended, whose access tokens may not have expired yet, and the identifiers of the tokens
/// of machines that were revoked.
pub(super) struct EndedGrants(Mutex<LruCache<String, ()>>);

impl Default for EndedGrants {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(MAX_ENDED).unwrap_or(NonZeroUsize::MIN))))
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
