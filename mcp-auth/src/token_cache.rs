//! A cache of what is known about tokens.

use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use ring::digest;

/// The bytes that one entry may use on average.
const BYTES_PER_ENTRY: usize = 4 * 1024;

/// The SHA-256 hash of a token: the cache contains no tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A map from tokens to values, bounded in entries and bytes. The least recently used entries are evicted, which costs
/// their next request a verification.
pub(crate) struct TokenCache<V> {
    entries: Mutex<Entries<V>>,
    max_entries: usize,
}

struct Entries<V> {
    by_token: LruCache<TokenHash, Entry<V>>,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    /// The time from which the entry is void, in seconds since the Unix epoch.
    until: f64,
    generation: u64,
}

impl<V: Clone> TokenCache<V> {
    /// Creates a cache with a maximum number of entries, and of 4 KiB for each of them. With 0, nothing is cached.
    pub(crate) fn new(max_entries: usize) -> Self {
        let entries = Entries { by_token: LruCache::unbounded(), bytes: 0 };
        Self { entries: Mutex::new(entries), max_entries }
    }

    /// Returns the value of a token, unless it is void or of another generation.
    pub(crate) fn get(&self, token: &TokenHash, generation: u64, now: f64) -> Option<V> {
        if self.max_entries == 0 {
            return None;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_token.get(token)?;
        if now < entry.until && entry.generation == generation {
            return Some(entry.value.clone());
        }
        entries.remove(token);
        None
    }

    /// Adds a value of about this size, which is void from `until` on.
    pub(crate) fn insert(&self, token: TokenHash, value: V, bytes: usize, until: f64, generation: u64) {
        let max_bytes = self.max_entries.saturating_mul(BYTES_PER_ENTRY);
        if bytes > max_bytes {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&token);
        while entries.by_token.len() >= self.max_entries || entries.bytes + bytes > max_bytes {
            let Some((_, evicted)) = entries.by_token.pop_lru() else { return };
            entries.bytes -= evicted.bytes;
        }
        entries.bytes += bytes;
        entries.by_token.put(token, Entry { value, bytes, until, generation });
    }
}

impl<V> Entries<V> {
    fn remove(&mut self, token: &TokenHash) {
        if let Some(entry) = self.by_token.pop(token) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenCache, TokenHash};

    #[test]
    fn entries_are_bounded_in_number_and_bytes_and_end() {
        let cache = TokenCache::new(3);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(TokenHash::of);
        for (token, value) in [(a, "a"), (b, "b"), (c, "c")] {
            cache.insert(token, value, 1000, 10.0, 1);
        }
        assert_eq!(cache.get(&a, 1, 9.9), Some("a"));
        cache.insert(d, "d", 1000, 10.0, 1);
        assert_eq!(cache.get(&b, 1, 9.9), None, "the least recently used entry is evicted");
        assert_eq!(cache.get(&a, 1, 10.0), None, "void");
        assert_eq!(cache.get(&c, 2, 9.9), None, "of another generation");
        assert_eq!(cache.get(&d, 1, 9.9), Some("d"));
        assert_eq!(cache.entries.lock().unwrap().by_token.len(), 1);
        cache.insert(a, "large", 12_000, 10.0, 1);
        assert_eq!((cache.get(&a, 1, 9.9), cache.get(&d, 1, 9.9)), (Some("large"), None));
        cache.insert(b, "too large", 12_289, 10.0, 1);
        assert_eq!(cache.get(&b, 1, 9.9), None);
        let entries = cache.entries.lock().unwrap();
        assert_eq!((entries.by_token.len(), entries.bytes), (1, 12_000));
    }

    /// Whatever happens to entries, their bytes are those that are counted.
    #[test]
    fn replaced_and_removed_entries_are_not_counted() {
        let cache = TokenCache::new(4);
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        for step in 0..2000 {
            let (token, generation) = (TokenHash::of(&below(6).to_string()), below(2));
            // Requests with a new token may come at the same time, and insert it twice.
            if below(3) > 0 {
                let bytes = usize::try_from(below(9000)).unwrap();
                cache.insert(token, step, bytes, step as f64 + 9.0, generation);
                assert_eq!(cache.get(&token, generation, step as f64), Some(step));
            } else {
                cache.get(&token, generation, step as f64);
            }
            let entries = cache.entries.lock().unwrap();
            let bytes: usize = entries.by_token.iter().map(|(_, entry)| entry.bytes).sum();
            assert_eq!(entries.bytes, bytes, "step {step}");
            assert!(entries.by_token.len() <= 4 && bytes <= 4 * super::BYTES_PER_ENTRY, "step {step}");
        }
    }

    #[test]
    fn a_cache_of_size_0_is_empty() {
        let cache = TokenCache::new(0);
        cache.insert(TokenHash::of("a"), (), 0, 10.0, 0);
        assert_eq!(cache.get(&TokenHash::of("a"), 0, 0.0), None);
    }
}
