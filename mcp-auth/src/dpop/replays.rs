use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use mcp_runtime::AuthenticationError;

use super::invalid_proof;
use crate::token_cache::TokenHash;

/// The proofs that were accepted, for as long as they would be accepted again.
///
/// Bounded in number, in total and for each key. None is forgotten early, since it could be repeated then; instead, the
/// next one is refused.
pub(super) struct Replays {
    proofs: Mutex<Seen>,
    lifetime: Duration,
    max: usize,
}

#[derive(Default)]
struct Seen {
    proofs: HashSet<TokenHash>,
    /// The proofs with their keys, in the order in which they are forgotten.
    order: VecDeque<(Instant, TokenHash, TokenHash)>,
    per_key: HashMap<TokenHash, usize>,
}

impl Replays {
    pub(super) fn new(lifetime: Duration, max: usize) -> Self {
        Self { proofs: Mutex::default(), lifetime, max }
    }

    /// Remembers the proof of a key.
    ///
    /// # Errors
    ///
    /// Returns an error if it was accepted before, or if there is no space.
    pub(super) fn add(&self, thumbprint: &str, id: &str, now: Instant) -> Result<(), AuthenticationError> {
        // The thumbprint contains no space.
        let (proof, key) = (TokenHash::of(&format!("{thumbprint} {id}")), TokenHash::of(thumbprint));
        let mut seen = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forget(now);
        if seen.proofs.contains(&proof) {
            return Err(invalid_proof("the proof was used before"));
        }
        let of_key = seen.per_key.get(&key).copied().unwrap_or(0);
        if seen.proofs.len() >= self.max || of_key >= self.max.div_ceil(4) {
            return Err(AuthenticationError::unavailable(
                Duration::from_secs(1),
                "too many proofs within a short time",
            ));
        }
        seen.proofs.insert(proof);
        seen.order.push_back((now + self.lifetime, proof, key));
        *seen.per_key.entry(key).or_default() += 1;
        Ok(())
    }
}

impl Seen {
    fn forget(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, proof, key)) = self.order.pop_front() else { return };
            self.proofs.remove(&proof);
            if let Some(count) = self.per_key.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.per_key.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Replays;

    #[test]
    fn proofs_are_bounded_in_total_and_for_each_key() {
        let (replays, start) = (Replays::new(Duration::from_secs(120), 8), Instant::now());
        let add = |key: &str, id: &str, seconds| {
            let result = replays.add(key, id, start + Duration::from_secs(seconds));
            result.map_err(|error| error.message().to_owned())
        };
        let (repeated, full) = ("the proof was used before", "too many proofs within a short time");
        for (key, id, seconds, expected) in [
            ("a", "1", 0, Ok(())),
            ("a", "1", 119, Err(repeated)),
            ("b", "1", 1, Ok(())),
            ("a", "2", 1, Ok(())),
            ("a", "3", 1, Err(full)),
            ("c", "1", 1, Ok(())),
            ("c", "2", 1, Ok(())),
            ("d", "1", 1, Ok(())),
            ("d", "2", 1, Ok(())),
            ("e", "1", 1, Ok(())),
            ("f", "1", 1, Err(full)),
            ("a", "1", 120, Ok(())),
            ("f", "1", 120, Err(full)),
            ("f", "1", 121, Ok(())),
        ] {
            assert_eq!(add(key, id, seconds), expected.map_err(str::to_owned), "{key} {id} {seconds}");
        }
        let seen = replays.proofs.lock().unwrap();
        assert_eq!((seen.proofs.len(), seen.order.len(), seen.per_key.len()), (2, 2, 2));
    }
}
