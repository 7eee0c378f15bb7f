use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{AbandonedStream, HttpSession};
use crate::{
    mutex::Mutex,
    transport::http::{peers::Peer, sse::stream::StreamMemory},
};

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

    /// Evicts abandoned streams if the memory of all streams is full: streams of the peer whose streams keep the most,
    /// first the fully sent streams, then the oldest.
    ///
    /// A scan visits every session. After a scan that did not free enough, the next one runs only when
    /// [`FRUITLESS_SCAN_INTERVAL`] has passed or memory use has grown considerably.
    pub(super) fn run(&self, sessions: impl FnOnce() -> Vec<PeerSession>) {
        if !self.memory.is_full() {
            return;
        }
        let mut fruitless_scan = self.fruitless_scan.lock();
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
        let mut peers: HashMap<*const Peer, (&Peer, Vec<AbandonedStream<'_>>)> = HashMap::new();
        for (session, peer) in sessions {
            let (_, abandoned) = peers.entry(Arc::as_ptr(peer)).or_insert_with(|| (peer, Vec::new()));
            abandoned.extend(session.abandoned_streams());
        }
        let mut peers: Vec<_> = peers.into_values().collect();
        // In the reverse order of their eviction.
        let order = |stream: &AbandonedStream<'_>| Reverse((stream.has_unsent, stream.opened));
        peers.iter_mut().for_each(|(_, abandoned)| abandoned.sort_unstable_by_key(order));
        let kept = |peer: &Peer| peer.stream_bytes().load(Ordering::Relaxed);
        let mut by_kept: BinaryHeap<_> = peers.iter().enumerate().map(|(at, (peer, _))| (kept(peer), at)).collect();
        let mut lost = 0;
        while self.memory.used() > target
            && let Some((_, at)) = by_kept.pop()
        {
            let (peer, abandoned) = &mut peers[at];
            // A peer without abandoned streams is not considered again.
            let Some(stream) = abandoned.pop() else { continue };
            lost += usize::from(stream.evict() && stream.has_unsent);
            by_kept.push((kept(peer), at));
        }
        if lost > 0 {
            tracing::warn!(lost, "unsent responses discarded: too much data is kept for clients that may reconnect");
        }
    }
}
