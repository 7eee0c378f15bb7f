//! The memory that the tasks of a process may use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{backend::Timestamp, mutex::Mutex};

/// The maximum number of bytes of all tasks.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// The maximum number of bytes of the tasks of one peer.
const MAX_BYTES_PER_PEER: usize = 32 << 20;

/// Bytes that tasks use: the bytes of the arguments that functions hold, or the bytes of long results. Beyond the
/// maximum, calls are not accepted as tasks, or tasks fail.
#[derive(Debug, Default)]
pub(super) struct ByteQuota(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    total: usize,
    /// Contains only peers that use any. The limit on tasks bounds their number.
    by_peer: HashMap<Arc<str>, usize>,
}

/// A part of the memory, which is released when the permit is dropped.
#[derive(Debug)]
pub(super) struct BytePermit {
    quota: Arc<ByteQuota>,
    peer: Arc<str>,
    bytes: usize,
}

impl ByteQuota {
    /// Reserves memory for a task. Returns `None` if its peer, or all peers together, use too much. Peers
    /// without a name share only the total.
    pub(super) fn reserve(self: &Arc<Self>, peer: &str, bytes: usize) -> Option<BytePermit> {
        let mut used = self.0.lock();
        let own = used.by_peer.get(peer).map_or(0, |own| *own);
        let max_own = if peer.is_empty() { MAX_BYTES } else { MAX_BYTES_PER_PEER };
        if used.total + bytes > MAX_BYTES || own + bytes > max_own {
            return None;
        }
        let peer: Arc<str> = peer.into();
        used.total += bytes;
        *used.by_peer.entry(Arc::clone(&peer)).or_default() += bytes;
        Some(BytePermit { quota: Arc::clone(self), peer, bytes })
    }

    /// Returns the bytes that are in use.
    pub(super) fn total(&self) -> usize {
        self.0.lock().total
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        let mut used = self.quota.0.lock();
        used.total -= self.bytes;
        if let Some(own) = used.by_peer.get_mut(&self.peer) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_peer.remove(&self.peer);
            }
        }
    }
}

/// The long results that this process has stored, which count until they expire.
#[derive(Debug, Default)]
pub(super) struct StoredResults {
    quota: Arc<ByteQuota>,
    by_expiry: Mutex<BTreeMap<Timestamp, Vec<BytePermit>>>,
}

impl StoredResults {
    /// Reserves memory for a result, like [`ByteQuota::reserve`]. The permit is passed to [`keep`](Self::keep) once the
    /// result is stored.
    pub(super) fn reserve(&self, peer: &str, bytes: usize, now: Timestamp) -> Option<BytePermit> {
        let expired = {
            let mut by_expiry = self.by_expiry.lock();
            let kept = by_expiry.split_off(&now);
            std::mem::replace(&mut *by_expiry, kept)
        };
        drop(expired);
        self.quota.reserve(peer, bytes)
    }

    /// Returns the bytes of the results that have not been forgotten.
    pub(super) fn total(&self) -> usize {
        self.quota.total()
    }

    /// Counts a result until it expires.
    pub(super) fn keep(&self, permit: BytePermit, expires: Timestamp) {
        self.by_expiry.lock().entry(expires).or_default().push(permit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_bytes_of_a_peer_and_of_all_peers_are_bounded() {
        let quota = Arc::new(ByteQuota::default());
        let mut permits = Vec::new();
        for (peer, mib, is_reserved) in [
            ("ada", 31, true),
            ("ada", 2, false),
            ("ada", 1, true),
            ("ada", 1, false),
            // Without a name, peers share what is left.
            ("", 200, true),
            ("eve", 25, false),
            ("eve", 24, true),
            ("bob", 1, false),
        ] {
            let permit = quota.reserve(peer, mib * MIB);
            assert_eq!(permit.is_some(), is_reserved, "{mib} MiB of {peer:?}");
            permits.extend(permit);
        }
        permits.remove(0);
        assert!(quota.reserve("ada", 32 * MIB).is_none());
        assert!(quota.reserve("ada", 31 * MIB).is_some());
        permits.clear();
        let used = quota.0.lock();
        assert_eq!((used.total, used.by_peer.len()), (0, 0));
    }

    #[test]
    fn results_count_until_they_expire() {
        let results = StoredResults::default();
        let at = Timestamp::from_unix_millis;
        for (now, expires, mib, is_kept) in
            [(0, 10, 15, true), (0, 10, 5, true), (0, 20, 12, true), (9, 30, 1, false), (11, 30, 20, true)]
        {
            let permit = results.reserve("ada", mib * MIB, at(now));
            assert_eq!(permit.is_some(), is_kept, "at {now}");
            permit.into_iter().for_each(|permit| results.keep(permit, at(expires)));
        }
    }
}
