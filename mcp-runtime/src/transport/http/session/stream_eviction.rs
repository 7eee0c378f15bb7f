use std::{
    cmp::{self, Reverse},
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{AbandonedStream, HttpSession};
use crate::transport::http::{peers::Peer, sse::stream::StreamMemory};

/// The minimum time between two scans for streams to evict, after a scan that did not free enough memory.
const FRUITLESS_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// A session and the peer that opened it.
pub(super) type PeerSession = (Arc<HttpSession>, Arc<Peer>);

/// Evicts abandoned streams when the memory of all streams is full.
#[derive(Debug, Default)]
pub(super) struct StreamEviction {
    memory: StreamMemory,
    fruitless_scan: Mutex<Option<FruitlessScan>>,
}

/// A scan for streams to evict that did not free enough memory.
#[derive(Debug, Clone, Copy)]
struct FruitlessScan {
    at: Instant,
    /// The memory that remained in use.
    used: usize,
}

impl StreamEviction {
    /// Returns the memory that all streams of the server share.
    pub(super) fn memory(&self) -> &StreamMemory {
        &self.memory
    }

    /// Evicts abandoned streams if the memory of all streams is full: those of the peer whose streams keep the most,
    /// fully sent ones first, then the oldest.
    ///
    /// A scan visits every session. After a scan that did not free enough, the next one runs only when
    /// [`FRUITLESS_SCAN_INTERVAL`] has passed or memory use has grown considerably.
    pub(super) fn run(&self, sessions: impl FnOnce() -> Vec<PeerSession>) {
        if !self.memory.is_full() {
            return;
        }
        let mut fruitless_scan = self.fruitless_scan.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.memory.max() / 8;
        let is_recent =
            |scan: FruitlessScan| scan.at.elapsed() < FRUITLESS_SCAN_INTERVAL && self.memory.used() < scan.used + step;
        if !self.memory.is_full() || fruitless_scan.is_some_and(is_recent) {
            return;
        }
        self.evict_down_to(self.memory.max() - step, &sessions());
        *fruitless_scan = self.memory.is_full().then(|| FruitlessScan { at: Instant::now(), used: self.memory.used() });
    }

    /// Evicts abandoned streams until at most `target` bytes are in use, or none is left.
    pub(super) fn evict_down_to(&self, target: usize, sessions: &[PeerSession]) {
        let mut by_peer: HashMap<*const Peer, PeerStreams<'_>> = HashMap::new();
        for (session, peer) in sessions {
            let streams = by_peer.entry(Arc::as_ptr(peer)).or_insert_with(|| PeerStreams::new(peer));
            streams.abandoned.extend(session.abandoned_streams());
        }
        let mut by_peer: BinaryHeap<_> = by_peer.into_values().map(PeerStreams::sorted).collect();
        let mut lost = 0;
        while self.memory.used() > target
            && let Some(mut streams) = by_peer.pop()
        {
            // A peer without abandoned streams is not considered again.
            let Some(stream) = streams.abandoned.pop() else { continue };
            lost += usize::from(stream.evict() && stream.has_unsent);
            streams.kept = streams.peer.stream_bytes().load(Ordering::Relaxed);
            by_peer.push(streams);
        }
        if lost > 0 {
            tracing::warn!(lost, "unsent responses discarded: too much data is kept for clients that may reconnect");
        }
    }
}

/// The abandoned streams of a peer, in the reverse order of their eviction. Peers are ordered by what their streams
/// keep.
struct PeerStreams<'a> {
    peer: &'a Peer,
    kept: usize,
    abandoned: Vec<AbandonedStream<'a>>,
}

impl<'a> PeerStreams<'a> {
    fn new(peer: &'a Peer) -> Self {
        Self { peer, kept: peer.stream_bytes().load(Ordering::Relaxed), abandoned: Vec::new() }
    }

    fn sorted(mut self) -> Self {
        self.abandoned.sort_unstable_by_key(|stream| Reverse((stream.has_unsent, stream.opened)));
        self
    }
}

impl Ord for PeerStreams<'_> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.kept.cmp(&other.kept)
    }
}

impl PartialOrd for PeerStreams<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PeerStreams<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl Eq for PeerStreams<'_> {}
