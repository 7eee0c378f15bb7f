//! Logs in memory.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    error::BackendError,
    logs::{Append, EventLogEntry, LogBounds, LogPosition},
};
use crate::{debug::debug, mutex::Mutex};

/// The maximum number of logs.
const MAX_LOGS: usize = 100_000;

/// The maximum size of all logs in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 1024;

/// Per-log overhead, excluding the entries and the key, which is stored twice.
const OVERHEAD: usize = 256;

/// Per-entry overhead, excluding the value.
const ENTRY_OVERHEAD: usize = 48;

/// The longest time to live, which keeps the arithmetic of times within its range.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The logs of a [`MemoryBackend`](super::MemoryBackend).
#[derive(Default)]
pub(super) struct MemoryLogs(Mutex<Store>);

#[derive(Default)]
struct Store {
    logs: HashMap<Arc<str>, Log>,
    /// All keys in the order in which their logs expire.
    by_expiry: BTreeSet<(Instant, Arc<str>)>,
    bytes: usize,
}

struct Log {
    entries: VecDeque<Arc<[u8]>>,
    /// The position of the newest entry.
    last: u64,
    /// The size in bytes of all entries.
    bytes: usize,
    expires: Instant,
    changed: Arc<Notify>,
}

impl MemoryLogs {
    /// Locks the store and removes expired logs.
    fn lock(&self) -> MutexGuard<'_, Store> {
        let mut store = self.0.lock();
        store.remove_expired(Instant::now());
        store
    }

    pub(super) fn append(
        &self,
        key: &str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> Result<Append, BackendError> {
        self.lock().append(key, after, entries, bounds)
    }

    pub(super) fn read(&self, key: &str, after: LogPosition, limit: usize) -> Option<Vec<EventLogEntry>> {
        Some(self.lock().logs.get(key)?.read(after, limit))
    }

    /// Waits until the log has an entry after a position, or does not exist.
    pub(super) async fn appended(&self, key: &str, after: LogPosition) {
        loop {
            let (changed, expires) = match self.lock().logs.get(key) {
                Some(log) if log.last <= after.number() => (Arc::clone(&log.changed).notified_owned(), log.expires),
                _ => return,
            };
            // The expiry may have been postponed in the meantime.
            let _: Result<_, _> = tokio::time::timeout_at(expires, changed).await;
        }
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }
}

impl Store {
    fn remove_expired(&mut self, now: Instant) {
        while let Some((expires, key)) = self.by_expiry.first()
            && *expires <= now
        {
            let key = Arc::clone(key);
            self.remove(&key);
        }
    }

    fn append(
        &mut self,
        key: &str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> Result<Append, BackendError> {
        let last = self.logs.get(key).map(|log| log.last);
        if last.unwrap_or_default() != after.number() {
            return Ok(Append::Conflict(LogPosition::new(last.unwrap_or_default())));
        }
        let added: usize = entries.iter().map(|entry| entry.len() + ENTRY_OVERHEAD).sum();
        let is_new = last.is_none();
        let overhead = if is_new { key.len() + OVERHEAD } else { 0 };
        if key.len() > MAX_KEY
            || self.logs.len() + usize::from(is_new) > MAX_LOGS
            || self.bytes + overhead + added > MAX_BYTES
        {
            return Err(BackendError::Full);
        }
        let expires = Instant::now() + bounds.ttl.min(MAX_TTL);
        let key = self.logs.get_key_value(key).map_or_else(|| Arc::from(key), |(key, _)| Arc::clone(key));
        let log = self.logs.entry(Arc::clone(&key)).or_insert_with(|| Log::new(expires));
        self.by_expiry.remove(&(log.expires, Arc::clone(&key)));
        self.by_expiry.insert((expires, key));
        log.expires = expires;
        let before = log.bytes;
        log.append(entries, bounds);
        self.bytes = self.bytes + overhead + log.bytes - before;
        log.changed.notify_waiters();
        Ok(Append::Appended(LogPosition::new(log.last)))
    }

    fn remove(&mut self, key: &str) {
        let Some((key, log)) = self.logs.remove_entry(key) else { return };
        self.bytes -= key.len() + OVERHEAD + log.bytes;
        self.by_expiry.remove(&(log.expires, key));
        log.changed.notify_waiters();
    }
}

impl Log {
    fn new(expires: Instant) -> Self {
        Self { entries: VecDeque::new(), last: 0, bytes: 0, expires, changed: Arc::default() }
    }

    fn append(&mut self, entries: Vec<Vec<u8>>, bounds: LogBounds) {
        for entry in entries {
            self.bytes += entry.len() + ENTRY_OVERHEAD;
            self.last += 1;
            self.entries.push_back(entry.into());
        }
        let values = |log: &Self| log.bytes - log.entries.len() * ENTRY_OVERHEAD;
        while self.entries.len() > 1 && (self.entries.len() > bounds.entries || values(self) > bounds.bytes) {
            let dropped = self.entries.pop_front();
            self.bytes -= dropped.map_or(0, |entry| entry.len() + ENTRY_OVERHEAD);
        }
    }

    fn read(&self, after: LogPosition, limit: usize) -> Vec<EventLogEntry> {
        let first = self.last + 1 - self.entries.len() as u64;
        let next = after.number().saturating_add(1).max(first);
        let skipped = usize::try_from(next - first).unwrap_or(usize::MAX);
        let entries = self.entries.iter().skip(skipped).take(limit).zip(next..);
        entries.map(|(value, position)| EventLogEntry::new(LogPosition::new(position), Arc::clone(value))).collect()
    }
}

debug!(MemoryLogs, self, logs: self.lock().logs.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn logs_expire_and_free_their_memory() {
        let logs = MemoryLogs::default();
        for (key, ttl) in [("a", 10), ("b", 20)] {
            let bounds = LogBounds::new(2, 100, Duration::from_secs(ttl));
            logs.append(key, LogPosition::START, vec![vec![0; 10]; 5], bounds).unwrap();
        }
        tokio::time::timeout(Duration::from_secs(11), logs.appended("a", LogPosition::new(5))).await.unwrap();
        assert_eq!(logs.read("a", LogPosition::new(5), 9), None);
        assert!(logs.read("b", LogPosition::new(5), 9).is_some());
        logs.remove("b");
        let store = logs.lock();
        assert_eq!((store.logs.len(), store.by_expiry.len(), store.bytes), (0, 0, 0));
    }

    #[test]
    fn full_logs_reject_what_exceeds_their_limits() {
        let logs = MemoryLogs::default();
        let bounds = LogBounds::new(1, usize::MAX, Duration::from_secs(60));
        assert!(logs.append("a", LogPosition::START, vec![vec![0; MAX_BYTES - 1024]], bounds).is_ok());
        assert_eq!(logs.append("b", LogPosition::START, vec![vec![0; 1024]], bounds), Err(BackendError::Full));
        assert_eq!(
            logs.append(&"x".repeat(MAX_KEY + 1), LogPosition::START, vec![vec![]], bounds),
            Err(BackendError::Full)
        );
        logs.remove("a");
        assert!(logs.append("b", LogPosition::START, vec![vec![0; 1024]], bounds).is_ok());
    }
}
