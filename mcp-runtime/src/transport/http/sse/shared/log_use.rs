use std::collections::VecDeque;

use crate::transport::http::sse::stream::{KeptBytes, MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES, StreamMemory};

/// The number of bytes that the log of a running stream may keep while the memory of all streams is full.
const MIN_LOGGED_BYTES: usize = 64 << 10;

/// The bytes of a log that this replica writes. They count towards the memory of all streams and that of its peer, which
/// [limits](crate::HttpOptions::max_unread_response_bytes) how many calls are accepted.
#[derive(Debug)]
pub(super) struct LogUse {
    memory: StreamMemory,
    counted: KeptBytes,
    /// The positions and lengths of the entries that the log keeps.
    entries: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl LogUse {
    pub(super) fn new(memory: StreamMemory) -> Self {
        Self { counted: memory.count(0), memory, entries: VecDeque::new(), bytes: 0 }
    }

    /// Returns the number of bytes that the log may keep after entries of this length are added. While the memory of
    /// all streams is full, the log drops everything before the last position that its client has taken. If that
    /// position is unknown, the log drops most of its entries.
    pub(super) fn max_bytes(&self, added: usize, taken: Option<u64>) -> usize {
        if !self.memory.is_full() {
            return MAX_LOGGED_BYTES;
        }
        let taken = taken.unwrap_or(u64::MAX);
        let needed: usize = self.entries.iter().filter(|(at, _)| *at >= taken).map(|(_, length)| length).sum();
        (needed + added).clamp(MIN_LOGGED_BYTES, MAX_LOGGED_BYTES)
    }

    /// Records that entries with these lengths were added, the last one at a position, and that the log drops others to
    /// keep at most `max_bytes`.
    pub(super) fn append(&mut self, last: u64, lengths: impl ExactSizeIterator<Item = usize>, max_bytes: usize) {
        let first = (last + 1).saturating_sub(lengths.len() as u64);
        for (position, length) in (first..).zip(lengths) {
            self.bytes += length;
            self.entries.push_back((position, length));
        }
        while self.entries.len() > MAX_LOGGED_MESSAGES || (self.entries.len() > 1 && self.bytes > max_bytes) {
            self.bytes -= self.entries.pop_front().map_or(0, |(_, length)| length);
        }
        self.counted.set(self.bytes);
    }

    /// Counts pending entries.
    pub(super) fn count_pending(&mut self, bytes: usize) {
        self.counted.set(self.bytes + bytes);
    }

    /// Returns the bytes of a log that is complete.
    pub(super) fn into_counted(mut self) -> KeptBytes {
        self.counted.set(self.bytes);
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_drop_what_was_received_while_the_memory_is_full() {
        const LENGTH: usize = MAX_LOGGED_BYTES / 4;
        let memory = StreamMemory::default();
        let mut log = LogUse::new(memory.clone());
        for position in 1..=10 {
            let max = log.max_bytes(LENGTH, Some(0));
            log.append(position, [LENGTH].into_iter(), max);
            assert_eq!((max, memory.used()), (MAX_LOGGED_BYTES, LENGTH * 4.min(position as usize)));
        }
        let other = memory.count(memory.max());
        for (taken, expected) in [(Some(0), 4), (Some(7), 4), (Some(9), 3), (Some(10), 2), (Some(11), 1), (None, 1)] {
            assert_eq!(log.max_bytes(LENGTH, taken), LENGTH * expected, "{taken:?}");
        }
        assert_eq!(log.max_bytes(1, None), MIN_LOGGED_BYTES);
        log.append(11, [LENGTH].into_iter(), log.max_bytes(LENGTH, Some(10)));
        assert_eq!(memory.used(), memory.max() + 2 * LENGTH);
        log.append(12, [2 * MAX_LOGGED_BYTES].into_iter(), MIN_LOGGED_BYTES);
        assert_eq!(memory.used(), memory.max() + 2 * MAX_LOGGED_BYTES, "the newest entry is kept");
        log.count_pending(7);
        drop(other);
        assert_eq!(memory.used(), 2 * MAX_LOGGED_BYTES + 7);
        assert_eq!((drop(log.into_counted()), memory.used()), ((), 0));
    }
}
