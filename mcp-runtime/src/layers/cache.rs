use std::{sync::Arc, time::Duration};

use lru::LruCache;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Call, CallKind, CallStatus, Layer, LayerFuture, Next, Outcome};
use crate::{
    jsonrpc::canonical,
    stdx::{Mutex, debug},
};

/// The default size of the cache.
const DEFAULT_MAX_BYTES: usize = 16 << 20;

/// The estimated overhead of an entry in bytes.
const OVERHEAD: usize = 256;

/// A layer that caches the results of read-only tools.
///
/// A tool is cached if it is annotated `read_only` and not `open_world`, and its function does not take `&Context`.
/// With a context, the result may depend on anything; [`per_key`](Self::per_key) enables the cache for such
/// functions. A cached result is used if the arguments (in any order), the [principal](crate::Caller::principal) and
/// the revision are the same, and for functions with a context also the scopes and the
/// [claims](crate::auth::Identity::claims) of the caller, which the function can read. Since claims such as `iat` and `exp`
/// differ between tokens, each token then has results of its own.
///
/// Errors are not cached, and neither are calls that send requests to the client. Inner layers are not called for
/// cached results. Calls with the same arguments that start before the first one has finished all run.
///
/// ```
/// use std::{sync::atomic::{AtomicUsize, Ordering}, time::Duration};
///
/// use mcp_runtime::{Revision, Server, layers::CacheReadOnly, tool};
///
/// static ASKED: AtomicUsize = AtomicUsize::new(0);
///
/// /// Find the capital of a country.
/// #[tool(read_only)]
/// fn capital(country: String) -> String {
///     ASKED.fetch_add(1, Ordering::Relaxed);
///     format!("the capital of {country}")
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let cache = CacheReadOnly::new(Duration::from_secs(60));
/// let mut client = Server::empty("atlas", "1.0.0").with::<capital>().layer(cache).test_client(Revision::V2026_07_28);
/// for _ in 0..3 {
///     let answer = client.call("capital", serde_json::json!({"country": "Peru"})).await.unwrap();
///     assert_eq!(answer.text(), "the capital of Peru");
/// }
/// assert_eq!(ASKED.load(Ordering::Relaxed), 1);
/// # });
/// ```
///
/// To [clear](Self::clear) the cache later, share it: `Arc<CacheReadOnly>` is also a layer.
pub struct CacheReadOnly {
    ttl: Duration,
    vary: Option<VaryFn>,
    results: Mutex<CachedResults>,
}

type VaryFn = Box<dyn Fn(&Call) -> String + Send + Sync>;

/// The digest of everything that a result depends on.
type Key = [u8; 32];

#[derive(Clone)]
struct CachedResult {
    json: Arc<[u8]>,
    created: Instant,
}

impl CachedResult {
    fn weight(&self) -> usize {
        self.json.len() + OVERHEAD
    }
}

/// Results in the order of their last use.
struct CachedResults {
    entries: LruCache<Key, CachedResult>,
    bytes: usize,
    max_bytes: usize,
    /// The number of times that all results were removed.
    clears: u64,
}

impl CachedResults {
    fn insert(&mut self, key: Key, result: CachedResult) {
        if result.weight() > self.max_bytes {
            return;
        }
        self.remove(&key);
        self.bytes += result.weight();
        self.entries.put(key, result);
        while self.bytes > self.max_bytes
            && let Some((_, result)) = self.entries.pop_lru()
        {
            self.bytes -= result.weight();
        }
    }

    fn remove(&mut self, key: &Key) {
        let removed = self.entries.pop(key);
        self.bytes -= removed.map_or(0, |result| result.weight());
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.clears += 1;
    }
}

impl CacheReadOnly {
    /// Creates a cache whose entries expire after `ttl`.
    pub fn new(ttl: Duration) -> Self {
        let results =
            CachedResults { entries: LruCache::unbounded(), bytes: 0, max_bytes: DEFAULT_MAX_BYTES, clears: 0 };
        Self { ttl, vary: None, results: Mutex::new(results) }
    }

    /// Sets the approximate maximum size of the cache. The default is 16 MiB. The least recently used entries are
    /// evicted.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        self.results.lock().max_bytes = bytes;
        self
    }

    /// Adds a component to the cache key, such as the value of a header. Functions that take `&Context` are then cached
    /// as well.
    ///
    /// ```
    /// # use mcp_runtime::layers::CacheReadOnly;
    /// # use std::time::Duration;
    /// CacheReadOnly::new(Duration::from_secs(60)).per_key(|call| {
    ///     let client = call.caller().client();
    ///     client.map(|client| client.name.clone()).unwrap_or_default()
    /// });
    /// ```
    #[must_use]
    pub fn per_key(mut self, key: impl Fn(&Call) -> String + Send + Sync + 'static) -> Self {
        self.vary = Some(Box::new(key));
        self
    }

    /// Removes every entry. The results of calls that are running are not cached.
    pub fn clear(&self) {
        self.results.lock().clear();
    }

    /// Returns whether the result of a call depends only on its key.
    fn is_cacheable(&self, call: &Call) -> bool {
        let hints = call.hints();
        call.kind() == CallKind::Tool
            && hints.read_only == Some(true)
            && hints.open_world != Some(true)
            && (self.vary.is_some() || !call.uses_context())
            && !call.is_conversation()
    }

    fn key(&self, call: &Call) -> Key {
        let mut hasher = Sha256::new();
        let caller = call.caller();
        let vary = self.vary.as_ref().map(|vary| vary(call));
        let identity = caller.identity().filter(|_| call.uses_context());
        let scopes = identity.map(|identity| format!("{:?}", identity.scopes().collect::<Vec<_>>()));
        let claims = identity.and_then(|identity| identity.claims::<Value>().ok());
        let parts = [
            Some(call.function_id().to_string()),
            Some(caller.revision().to_string()),
            caller.principal().map(ToOwned::to_owned),
            scopes,
            claims.map(|claims| canonical(&claims.to_string())),
            vary,
            Some(canonical(call.arguments())),
        ];
        for part in parts {
            // The length prefix separates the parts, and distinguishes a missing part from an empty part.
            hasher.update(part.as_ref().map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            hasher.update(part.unwrap_or_default());
        }
        hasher.finalize().into()
    }

    fn find(&self, key: &Key) -> Option<CachedResult> {
        let mut results = self.results.lock();
        let result = results.entries.get(key)?.clone();
        if result.created.elapsed() < self.ttl {
            return Some(result);
        }
        results.remove(key);
        None
    }
}

impl Layer for CacheReadOnly {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        if !self.is_cacheable(&call) {
            return Box::pin(next.run(call));
        }
        Box::pin(async move {
            let (key, created, clears) = (self.key(&call), Instant::now(), self.results.lock().clears);
            if let Some(result) = self.find(&key) {
                return Outcome::from_cached_json(&call, &result.json);
            }
            let outcome = next.run(call.clone()).await;
            if outcome.status() == CallStatus::Success
                && !call.is_conversation()
                && let Some(json) = outcome.json()
            {
                let mut results = self.results.lock();
                if results.clears == clears {
                    results.insert(key, CachedResult { json: json.as_bytes().into(), created });
                }
            }
            outcome
        })
    }
}

debug!(CachedResults, self, bytes: self.bytes, max_bytes: self.max_bytes);
debug!(CacheReadOnly, self, ttl: self.ttl, results: self.results.lock());

#[cfg(test)]
mod tests {
    use super::*;

    fn result(bytes: usize) -> CachedResult {
        CachedResult { json: vec![b' '; bytes].into(), created: Instant::now() }
    }

    #[test]
    fn the_least_recently_used_results_are_evicted() {
        let cache = CacheReadOnly::new(Duration::from_secs(60)).max_bytes(3 * (1000 + OVERHEAD));
        let mut results = cache.results.lock();
        for (key, bytes, kept) in [
            (1, 1000, &[1][..]),
            (2, 1000, &[1, 2]),
            (3, 1000, &[1, 2, 3]),
            (4, 1000, &[2, 3, 4]),
            (2, 500, &[2, 3, 4]),
            (5, 1000, &[2, 4, 5]),
            (6, 1_000_000, &[2, 4, 5]),
            (7, 3000, &[7]),
        ] {
            results.insert([key; 32], result(bytes));
            let mut keys: Vec<_> = results.entries.iter().map(|(key, _)| key[0]).collect();
            keys.sort_unstable();
            assert_eq!(keys, kept, "after {key}");
            assert_eq!(results.bytes, results.entries.iter().map(|(_, result)| result.weight()).sum::<usize>());
        }
        results.remove(&[7; 32]);
        results.remove(&[8; 32]);
        assert_eq!(results.bytes, 0);
    }

    #[test]
    fn the_default_limit_is_that_of_the_documentation() {
        assert_eq!(CacheReadOnly::new(Duration::from_secs(60)).results.lock().max_bytes, 16 << 20);
    }

    #[test]
    fn a_cleared_cache_has_room_again() {
        let cache = CacheReadOnly::new(Duration::from_secs(60)).max_bytes(3 * (1000 + OVERHEAD));
        for round in 0..3 {
            for key in 0..3 {
                cache.results.lock().insert([key; 32], result(1000));
            }
            assert_eq!(cache.results.lock().entries.len(), 3, "{round}");
            cache.clear();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn expired_results_are_not_counted() {
        let cache = CacheReadOnly::new(Duration::from_secs(60)).max_bytes(3 * (1000 + OVERHEAD));
        for key in 0..9 {
            cache.results.lock().insert([key; 32], result(1000));
            assert!(cache.find(&[key; 32]).is_some(), "{key}");
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(cache.find(&[key; 32]).is_none(), "{key}");
            assert_eq!(cache.results.lock().bytes, 0, "{key}");
        }
    }
}
