use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Call, CallStatus, Layer, LayerFuture, Next, Outcome};
use crate::{handler::entry::EntryKind, jsonrpc::canonical};

/// The bytes of answers that are kept, unless set.
const BYTES: usize = 16 << 20;

/// What keeping an answer costs beside its bytes.
const OVERHEAD: usize = 256;

/// Keeps the answers of tools that only read, and gives them again to the same question of the same caller.
///
/// It keeps answers of tools that are annotated `read_only` and not `open_world`, unless the function takes `&Context`:
/// then the answer may depend on what only the author knows, who says so with [`varying_by`](Self::varying_by). An answer
/// is given again if the arguments are the same, in whatever order, and so are the [principal](crate::Caller::principal)
/// and the revision.
///
/// Only results are kept: no errors, no questions to the client, and nothing that the client was asked for. Layers within
/// this one do not see calls that are answered from what is kept. Of calls that come while the first is not yet answered
/// each runs.
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
/// It can be shared, to be [cleared](Self::clear): `Arc<CacheReadOnly>` is a layer as well.
pub struct CacheReadOnly {
    ttl: Duration,
    varying: Option<Varying>,
    answers: Mutex<Answers>,
}

type Varying = Box<dyn Fn(&Call) -> String + Send + Sync>;

/// The digest of everything that an answer depends on.
type Key = [u8; 32];

#[derive(Clone)]
struct Answer {
    body: Arc<[u8]>,
    made: Instant,
}

impl Answer {
    fn weight(&self) -> usize {
        self.body.len() + OVERHEAD
    }
}

/// The answers that are kept, in the order in which they were last asked for.
struct Answers {
    kept: LruCache<Key, Answer>,
    bytes: usize,
    max_bytes: usize,
}

impl Answers {
    fn insert(&mut self, key: Key, answer: Answer) {
        if answer.weight() > self.max_bytes {
            return;
        }
        self.remove(&key);
        self.bytes += answer.weight();
        self.kept.put(key, answer);
        while self.bytes > self.max_bytes
            && let Some((_, answer)) = self.kept.pop_lru()
        {
            self.bytes -= answer.weight();
        }
    }

    fn remove(&mut self, key: &Key) {
        let removed = self.kept.pop(key);
        self.bytes -= removed.map_or(0, |answer| answer.weight());
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}

impl CacheReadOnly {
    /// Keeps answers for so long.
    pub fn new(ttl: Duration) -> Self {
        let answers = Answers { kept: LruCache::unbounded(), bytes: 0, max_bytes: BYTES };
        Self { ttl, varying: None, answers: Mutex::new(answers) }
    }

    /// Sets how many bytes of answers are kept, about; 16 MiB unless set. Those that nobody has asked for the longest time
    /// make place for others.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        self.answers().max_bytes = bytes;
        self
    }

    /// Says what else answers depend on, such as a header, and has those of functions that take `&Context` kept as well.
    /// Answers are given again only where the key is the same.
    ///
    /// ```
    /// # use mcp_runtime::layers::CacheReadOnly;
    /// # use std::time::Duration;
    /// CacheReadOnly::new(Duration::from_secs(60)).varying_by(|call| {
    ///     let client = call.caller().client();
    ///     client.map(|client| client.name.clone()).unwrap_or_default()
    /// });
    /// ```
    #[must_use]
    pub fn varying_by(mut self, key: impl Fn(&Call) -> String + Send + Sync + 'static) -> Self {
        self.varying = Some(Box::new(key));
        self
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.answers().clear();
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether an answer depends on nothing but what is part of its key.
    fn keeps(&self, call: &Call) -> bool {
        let hints = call.hints();
        call.kind() == EntryKind::Tool
            && hints.read_only == Some(true)
            && hints.open_world != Some(true)
            && (self.varying.is_some() || !call.uses_context())
            && !call.is_conversation()
    }

    fn key(&self, call: &Call) -> Key {
        let mut hasher = Sha256::new();
        let caller = call.caller();
        let varying = self.varying.as_ref().map(|varying| varying(call));
        let parts = [
            Some(call.address().to_string()),
            Some(caller.revision().to_string()),
            caller.principal().map(ToOwned::to_owned),
            varying,
            Some(canonical(call.arguments())),
        ];
        for part in parts {
            // What is missing is told from what is empty, and no part from being the end of another.
            hasher.update(part.as_ref().map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            hasher.update(part.unwrap_or_default());
        }
        hasher.finalize().into()
    }

    fn find(&self, key: &Key) -> Option<Answer> {
        let mut answers = self.answers();
        let answer = answers.kept.get(key)?.clone();
        if answer.made.elapsed() < self.ttl {
            return Some(answer);
        }
        answers.remove(key);
        None
    }
}

impl Layer for CacheReadOnly {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        if !self.keeps(&call) {
            return Box::pin(next.run(call));
        }
        Box::pin(async move {
            let (key, made) = (self.key(&call), Instant::now());
            if let Some(answer) = self.find(&key) {
                return Outcome::again(&call, &answer.body);
            }
            let outcome = next.run(call.clone()).await;
            if outcome.status() == CallStatus::Success
                && !call.is_conversation()
                && let Some(json) = outcome.json()
            {
                self.answers().insert(key, Answer { body: json.as_bytes().into(), made });
            }
            outcome
        })
    }
}

impl fmt::Debug for CacheReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = self.answers();
        f.debug_struct("CacheReadOnly")
            .field("ttl", &self.ttl)
            .field("bytes", &answers.bytes)
            .field("max_bytes", &answers.max_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Answer {
        Answer { body: vec![b' '; bytes].into(), made: Instant::now() }
    }

    #[test]
    fn memory_is_bounded() {
        let cache = CacheReadOnly::new(Duration::from_secs(60)).max_bytes(3 * (1000 + OVERHEAD));
        let mut answers = cache.answers();
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
            answers.insert([key; 32], answer(bytes));
            let mut keys: Vec<_> = answers.kept.iter().map(|(key, _)| key[0]).collect();
            keys.sort_unstable();
            assert_eq!(keys, kept, "after {key}");
            assert_eq!(answers.bytes, answers.kept.iter().map(|(_, answer)| answer.weight()).sum::<usize>());
        }
        answers.remove(&[7; 32]);
        answers.remove(&[8; 32]);
        assert_eq!(answers.bytes, 0);
    }
}
