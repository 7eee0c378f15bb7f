//! The default backend: records, logs and topics in the memory of this process.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    future::ready,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    error::{BackendError, BackendFuture},
    logs::{Append, EventLogEntry, EventLogs, LogBounds, LogPosition},
    memory_records::{MAX_KEY, MAX_TTL, MemoryRecords},
    records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records, forward_records},
    time::Timestamp,
    topics::{TopicSender, TopicSubscription, Topics},
};
use crate::stdx::{Mutex, debug};

/// A [`Backend`](crate::backend::Backend) in the memory of one process.
///
/// It keeps at most 200,000 records with 320 MiB, 100,000 logs with 64 MiB, and 200,000 subscriptions, and rejects data
/// beyond these limits. Several servers in one process may share it.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::backend::{MemoryBackend, RecordCondition, Records as _};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = Arc::new(MemoryBackend::default());
/// let minute = std::time::Duration::from_secs(60);
/// backend.set("app/greeting", RecordCondition::Always, b"hello".to_vec(), minute).await?;
/// assert!(backend.get("app/greeting").await?.is_some());
/// # Ok::<(), mcp_runtime::backend::BackendError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct MemoryBackend {
    records: MemoryRecords,
    logs: MemoryLogs,
    topics: MemoryTopics,
}

/// The maximum number of records.
const MAX_RECORDS: usize = 200_000;

/// The maximum size of all records in bytes, including tasks, which are limited to 256 MiB, and the records of
/// functions.
const MAX_RECORD_BYTES: usize = 320 << 20;

impl Default for MemoryBackend {
    fn default() -> Self {
        let records = MemoryRecords::new(MAX_RECORDS, MAX_RECORD_BYTES);
        Self { records, logs: MemoryLogs::default(), topics: MemoryTopics::default() }
    }
}

macro_rules! call_records {
    ($this:ident, $kind:ident $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        $this.records.$method($($argument),*)
    };
}

forward_records!([] MemoryBackend, self, call_records);

impl EventLogs for MemoryBackend {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        Box::pin(ready(self.logs.lock().append(key, after, entries, bounds)))
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
        let found = self.logs.lock().logs.get(key).map(|log| log.read(after, limit));
        Box::pin(ready(Ok(found)))
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let (changed, expires) = match self.logs.lock().logs.get(key) {
                    Some(log) if log.last <= after.number() => (Arc::clone(&log.changed).notified_owned(), log.expires),
                    _ => return Ok(()),
                };
                // The expiry may have been postponed in the meantime.
                let _: Result<_, _> = tokio::time::timeout_at(expires, changed).await;
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.logs.lock().remove(key);
        Box::pin(ready(Ok(())))
    }
}

impl Topics for MemoryBackend {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        Box::pin(ready(self.topics.publish(topic, message)))
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        Box::pin(ready(self.topics.subscribe(topic)))
    }
}

/// The maximum number of subscriptions.
const MAX_SUBSCRIPTIONS: usize = 200_000;

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The topics of a [`MemoryBackend`](super::MemoryBackend).
#[derive(Default)]
struct MemoryTopics(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    by_topic: HashMap<Box<str>, Vec<TopicSender>>,
    /// The number of senders, including the senders whose subscriptions were dropped since the last sweep.
    count: usize,
    /// The number of senders at which the next sweep takes place.
    sweep_at: usize,
}

impl MemoryTopics {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Result<(), BackendError> {
        if message.len() > MAX_MESSAGE {
            return Err(BackendError::Full);
        }
        let subscribers = self.0.lock();
        if let Some(senders) = subscribers.by_topic.get(topic) {
            let message: Arc<[u8]> = message.into();
            senders.iter().for_each(|sender| sender.send(Arc::clone(&message)));
        }
        Ok(())
    }

    fn subscribe(&self, topic: &str) -> Result<TopicSubscription, BackendError> {
        let mut subscribers = self.0.lock();
        subscribers.sweep();
        if topic.len() > MAX_KEY || subscribers.count >= MAX_SUBSCRIPTIONS {
            return Err(BackendError::Full);
        }
        let (sender, subscription) = TopicSubscription::new();
        subscribers.count += 1;
        subscribers.by_topic.entry(topic.into()).or_default().push(sender);
        Ok(subscription)
    }
}

impl Subscribers {
    /// Removes the senders of dropped subscriptions whenever their number may have doubled.
    fn sweep(&mut self) {
        if self.count < self.sweep_at {
            return;
        }
        self.by_topic.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        self.count = self.by_topic.values().map(Vec::len).sum();
        self.sweep_at = (2 * self.count).clamp(64, MAX_SUBSCRIPTIONS);
    }
}

debug!(MemoryTopics, self, topics: self.0.lock().by_topic.len());

/// The maximum number of logs.
const MAX_LOGS: usize = 100_000;

/// The maximum size of all logs in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Per-log overhead, excluding the entries and the key, which is stored twice.
const OVERHEAD: usize = 256;

/// Per-entry overhead, excluding the value.
const ENTRY_OVERHEAD: usize = 48;

/// The logs of a [`MemoryBackend`](super::MemoryBackend).
#[derive(Default)]
struct MemoryLogs(Mutex<Store>);

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

    #[test]
    fn dropped_subscriptions_free_their_memory() {
        let topics = MemoryTopics::default();
        let kept = topics.subscribe("kept").unwrap();
        for number in 0..1000 {
            drop(topics.subscribe(&number.to_string()).unwrap());
        }
        assert!(topics.0.lock().by_topic.len() <= 64);
        assert!(topics.0.lock().by_topic.contains_key("kept"));
        drop(kept);
    }

    #[test]
    fn the_numbers_of_logs_and_of_subscriptions_are_bounded() {
        let backend = MemoryBackend::default();
        {
            let mut subscribers = backend.topics.0.lock();
            (subscribers.count, subscribers.sweep_at) = (MAX_SUBSCRIPTIONS - 1, usize::MAX);
        }
        assert!(backend.topics.subscribe("last").is_ok());
        assert_eq!(backend.topics.subscribe("last").err(), Some(BackendError::Full));
        let (mut logs, expires) = (backend.logs.lock(), Instant::now() + MAX_TTL);
        logs.logs.extend((1..MAX_LOGS).map(|number| (number.to_string().into(), Log::new(expires))));
        let bounds = LogBounds::new(1, 1, Duration::MAX);
        let mut append = |key, after| logs.append(key, LogPosition::new(after), vec![Vec::new()], bounds);
        assert_eq!(append("last", 0), Ok(Append::Appended(LogPosition::new(1))));
        assert_eq!(append("another", 0), Err(BackendError::Full));
        assert_eq!(append("last", 1), Ok(Append::Appended(LogPosition::new(2))), "it exists already");
    }

    #[tokio::test(start_paused = true)]
    async fn logs_expire_and_free_their_memory() {
        let backend = MemoryBackend::default();
        for (key, ttl) in [("a", 10), ("b", 20)] {
            let bounds = LogBounds::new(2, 100, Duration::from_secs(ttl));
            backend.append(key, LogPosition::START, vec![vec![0; 10]; 5], bounds).await.unwrap();
        }
        let appended = backend.appended("a", LogPosition::new(5));
        tokio::time::timeout(Duration::from_secs(11), appended).await.unwrap().unwrap();
        assert_eq!(backend.read("a", LogPosition::new(5), 9).await, Ok(None));
        assert!(backend.read("b", LogPosition::new(5), 9).await.unwrap().is_some());
        backend.remove("b").await.unwrap();
        let store = backend.logs.lock();
        assert_eq!((store.logs.len(), store.by_expiry.len(), store.bytes), (0, 0, 0));
    }

    #[test]
    fn full_logs_reject_what_exceeds_their_limits() {
        let logs = MemoryBackend::default().logs;
        let bounds = LogBounds::new(1, usize::MAX, Duration::from_secs(60));
        let append = |key: &str, bytes| logs.lock().append(key, LogPosition::START, vec![vec![0; bytes]], bounds);
        assert!(append("a", MAX_BYTES - 1024).is_ok());
        assert_eq!(append("b", 1024), Err(BackendError::Full));
        assert_eq!(append(&"x".repeat(MAX_KEY + 1), 0), Err(BackendError::Full));
        logs.lock().remove("a");
        assert!(append("b", 1024).is_ok());
    }
}
