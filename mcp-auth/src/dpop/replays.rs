use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mcp_runtime::{
    auth::AuthenticationError,
    backend::{Insertion, RecordQuota, Records},
};

use super::invalid_proof;
use crate::token_cache::TokenHash;

/// The time after which a client may repeat a request whose proof could not be remembered.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The proofs that were accepted, for as long as they would be accepted again.
///
/// Bounded in number, in total and for each principal, which may have any number of keys. None is forgotten early, since
/// it could be repeated then; instead, the next one is refused.
pub(super) struct Replays {
    proofs: Mutex<Seen>,
    lifetime: Duration,
    max: usize,
    /// Where the proofs are instead, if processes share them.
    records: Option<Arc<dyn Records>>,
    /// The group of these records.
    group: &'static str,
}

#[derive(Default)]
struct Seen {
    proofs: HashSet<TokenHash>,
    /// The proofs with their principals, in the order in which they are forgotten.
    order: VecDeque<(Instant, TokenHash, TokenHash)>,
    per_principal: HashMap<TokenHash, usize>,
}

impl Replays {
    pub(super) fn new(lifetime: Duration, max: usize, records: Option<Arc<dyn Records>>, group: &'static str) -> Self {
        Self { proofs: Mutex::default(), lifetime, max, records, group }
    }

    /// Remembers the proof of a principal's key.
    ///
    /// # Errors
    ///
    /// Returns an error if it was accepted before, or if there is no space.
    pub(super) async fn add(
        &self,
        principal: &str,
        thumbprint: &str,
        id: &str,
        now: Instant,
    ) -> Result<(), AuthenticationError> {
        // The thumbprint contains no space.
        let proof = TokenHash::of(&format!("{thumbprint} {id}"));
        let principal = TokenHash::of(principal);
        match &self.records {
            None => self.add_here(proof, principal, now),
            Some(records) => self.add_to(&**records, proof, principal).await,
        }
    }

    async fn add_to(
        &self,
        records: &dyn Records,
        proof: TokenHash,
        principal: TokenHash,
    ) -> Result<(), AuthenticationError> {
        let [name, account] = [proof, principal].map(|hash| BASE64_URL_SAFE_NO_PAD.encode(hash.as_bytes()));
        let quota = RecordQuota { account: &account, per_account: self.max - self.max / 4, total: self.max };
        match records.insert(self.group, &name, Vec::new(), self.lifetime, quota).await {
            Ok(Insertion::Inserted(_)) => Ok(()),
            Ok(Insertion::Exists) => Err(used()),
            Ok(Insertion::Full { .. }) => Err(full()),
            Err(error) => Err(AuthenticationError::unavailable(RETRY_AFTER, "the proof cannot be remembered")
                .with_detail(error.to_string())),
        }
    }

    fn add_here(&self, proof: TokenHash, principal: TokenHash, now: Instant) -> Result<(), AuthenticationError> {
        let mut seen = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forget(now);
        if seen.proofs.contains(&proof) {
            return Err(used());
        }
        let own = seen.per_principal.get(&principal).copied().unwrap_or(0);
        let left_by_others = self.max.saturating_sub(seen.proofs.len() - own);
        if own >= left_by_others - left_by_others / 4 {
            return Err(full());
        }
        seen.proofs.insert(proof);
        seen.order.push_back((now + self.lifetime, proof, principal));
        *seen.per_principal.entry(principal).or_default() += 1;
        Ok(())
    }
}

fn used() -> AuthenticationError {
    invalid_proof("the proof was used before")
}

fn full() -> AuthenticationError {
    AuthenticationError::unavailable(RETRY_AFTER, "too many proofs within a short time")
}

impl Seen {
    fn forget(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, proof, principal)) = self.order.pop_front() else { return };
            self.proofs.remove(&proof);
            if let Some(count) = self.per_principal.get_mut(&principal) {
                *count -= 1;
                if *count == 0 {
                    self.per_principal.remove(&principal);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Replays;

    #[tokio::test]
    async fn proofs_are_bounded_in_total_and_for_each_principal() {
        let (replays, start) = (Replays::new(Duration::from_secs(120), 8, None, ""), Instant::now());
        let add = async |principal: &str, key: &str, id: &str, seconds| {
            let now = start + Duration::from_secs(seconds);
            let result = replays.add(principal, key, id, now).await;
            result.map_err(|error| error.message().to_owned())
        };
        let (repeated, full) = ("the proof was used before", "too many proofs within a short time");
        for (principal, key, id, seconds, expected) in [
            ("ada", "a", "1", 0, Ok(())),
            ("ada", "a", "1", 119, Err(repeated)),
            ("eve", "a", "1", 119, Err(repeated)),
            // New keys do not help: six of eight is all that one principal can use.
            ("ada", "b", "1", 1, Ok(())),
            ("ada", "c", "1", 1, Ok(())),
            ("ada", "d", "1", 1, Ok(())),
            ("ada", "e", "1", 1, Ok(())),
            ("ada", "f", "1", 1, Ok(())),
            ("ada", "g", "1", 1, Err(full)),
            ("ada", "a", "2", 1, Err(full)),
            ("eve", "g", "1", 1, Ok(())),
            ("eve", "h", "1", 1, Ok(())),
            ("eve", "i", "1", 1, Err(full)),
            ("bob", "i", "1", 1, Err(full)),
            // The first one is forgotten: what others use reduces the share.
            ("ada", "a", "1", 120, Err(full)),
            ("bob", "i", "1", 120, Ok(())),
            ("bob", "j", "1", 120, Err(full)),
            ("ada", "a", "1", 121, Ok(())),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(add(principal, key, id, seconds).await, expected, "{principal} {key} {id} {seconds}");
        }
        let seen = replays.proofs.lock().unwrap();
        assert_eq!((seen.proofs.len(), seen.order.len(), seen.per_principal.len()), (2, 2, 2));
    }
}
