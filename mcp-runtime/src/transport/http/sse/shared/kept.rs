use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use super::log::ENDED_TTL;
use crate::transport::http::sse::stream::{KeptBytes, StreamMemory};

/// The maximum number of complete streams of a session whose logs are kept.
pub(super) const MAX_SESSION_LOGS: usize = 8;
/// The maximum number of complete streams of all sessions whose logs are kept.
const MAX_LOGS: usize = 16_384;

/// The logs of complete streams that this replica has written and that have yet to expire. Their bytes count towards
/// the memory of all streams, which limits them together with those that are in memory.
#[derive(Debug, Default)]
pub(super) struct KeptLogs {
    /// The logs in the order of their completion.
    logs: BTreeMap<u64, KeptLog>,
    /// The keys of the logs of each session, oldest first.
    sessions: HashMap<Arc<str>, VecDeque<u64>>,
    next: u64,
}

/// A session and one of its streams.
pub(super) type Stream = (Arc<str>, u64);

#[derive(Debug)]
struct KeptLog {
    stream: Stream,
    bytes: KeptBytes,
    expires: Instant,
}

impl KeptLogs {
    /// Adds the log of a complete stream. Returns those that must be removed: the oldest ones of a session that has too
    /// many, and if there are too many bytes, the oldest ones of the peers that keep the most.
    pub(super) fn add(&mut self, stream: Stream, bytes: KeptBytes, memory: &StreamMemory) -> Vec<Stream> {
        let now = Instant::now();
        while let Some(entry) = self.logs.first_entry()
            && entry.get().expires <= now
        {
            let key = *entry.key();
            self.take(key);
        }
        let key = self.next;
        self.next += 1;
        let session = self.sessions.entry(Arc::clone(&stream.0)).or_default();
        session.push_back(key);
        let excess = if session.len() > MAX_SESSION_LOGS { session.front().copied() } else { None };
        self.logs.insert(key, KeptLog { stream, bytes, expires: now + ENDED_TTL });
        let mut removed: Vec<_> = excess.and_then(|key| self.take(key)).into_iter().collect();
        if self.logs.len() > MAX_LOGS {
            let oldest = self.logs.first_key_value().map(|(key, _)| *key);
            removed.extend(oldest.and_then(|key| self.take(key)));
        }
        removed.append(&mut self.evict(memory));
        removed
    }

    /// Removes and returns logs while the memory of all streams is full, beginning with the oldest logs of the peers
    /// that keep the most.
    pub(super) fn evict(&mut self, memory: &StreamMemory) -> Vec<Stream> {
        let mut removed = Vec::new();
        while memory.is_full() {
            let largest = self.logs.iter().max_by_key(|(key, log)| (log.bytes.of_peer(), Reverse(**key)));
            let Some(stream) = largest.map(|(key, _)| *key).and_then(|key| self.take(key)) else { break };
            removed.push(stream);
        }
        removed
    }

    /// Takes the logs of a session.
    pub(super) fn remove_session(&mut self, session: &str) -> Vec<Stream> {
        let keys = self.sessions.remove(session).unwrap_or_default();
        keys.into_iter().filter_map(|key| self.logs.remove(&key)).map(|log| log.stream).collect()
    }

    fn take(&mut self, key: u64) -> Option<Stream> {
        let stream = self.logs.remove(&key)?.stream;
        if let Some(session) = self.sessions.get_mut(&stream.0) {
            session.retain(|known| *known != key);
            if session.is_empty() {
                self.sessions.remove(&stream.0);
            }
        }
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(session: &str, number: u64) -> Stream {
        (session.into(), number)
    }

    #[tokio::test(start_paused = true)]
    async fn the_logs_of_a_session_are_bounded_and_expire() {
        let (memory, mut kept) = (StreamMemory::default(), KeptLogs::default());
        let max = MAX_SESSION_LOGS as u64;
        for number in 0..max {
            assert_eq!(kept.add(stream("a", number), memory.count(10), &memory), []);
        }
        assert_eq!(kept.add(stream("b", 0), memory.count(10), &memory), []);
        assert_eq!(kept.add(stream("a", max), memory.count(10), &memory), [stream("a", 0)]);
        assert_eq!(memory.used(), 10 * (MAX_SESSION_LOGS + 1));
        assert_eq!(kept.remove_session("b"), [stream("b", 0)]);
        assert_eq!(memory.used(), 10 * MAX_SESSION_LOGS);
        tokio::time::advance(ENDED_TTL).await;
        assert_eq!(kept.add(stream("c", 0), memory.count(10), &memory), []);
        assert_eq!((memory.used(), kept.sessions.len()), (10, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_that_keeps_the_most_loses_its_oldest_logs() {
        let (all, mut kept) = (StreamMemory::default(), KeptLogs::default());
        let [large, small] = [(); 2].map(|()| all.of_part(&Arc::default()));
        let part = all.max() / 4;
        assert_eq!(kept.add(stream("small", 0), small.count(part), &small), []);
        for number in 0..3 {
            assert_eq!(kept.add(stream("large", number), large.count(part), &large), []);
        }
        assert_eq!(kept.add(stream("small", 1), small.count(1), &small), [stream("large", 0)]);
        assert_eq!(kept.add(stream("large", 3), large.count(part), &large), [stream("large", 1)]);
        assert!(all.used() <= all.max());
    }
}
