//! The default backend.

use std::{future::ready, time::Duration};

use super::{
    error::BackendFuture,
    logs::{Append, LogBounds, LogEntry, LogPosition, Logs},
    memory_logs::MemoryLogs,
    memory_records::MemoryRecords,
    memory_topics::MemoryTopics,
    records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records},
    time::Timestamp,
    topics::{TopicSubscription, Topics},
};

/// A [`Backend`](crate::Backend) in the memory of one process.
///
/// It keeps at most 200,000 records with 320 MiB, 100,000 logs with 64 MiB, and 200,000 subscriptions, and rejects what
/// exceeds that. Several servers in one process may share it.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::{MemoryBackend, RecordCondition, Records as _};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = Arc::new(MemoryBackend::default());
/// let minute = std::time::Duration::from_secs(60);
/// backend.set("app/greeting", RecordCondition::Always, b"hello".to_vec(), minute).await?;
/// assert!(backend.get("app/greeting").await?.is_some());
/// # Ok::<(), mcp_runtime::BackendError>(())
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

/// The maximum size of all records in bytes: that of tasks, which is limited to 256 MiB, and of what functions store.
const MAX_RECORD_BYTES: usize = 320 << 20;

impl Default for MemoryBackend {
    fn default() -> Self {
        let records = MemoryRecords::new(MAX_RECORDS, MAX_RECORD_BYTES);
        Self { records, logs: MemoryLogs::default(), topics: MemoryTopics::default() }
    }
}

impl Records for MemoryBackend {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.records.get(key)
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.records.set(key, condition, value, ttl)
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        self.records.insert(group, name, value, ttl, quota)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.records.delete(key, condition)
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.records.list(group, after, limit)
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.records.count(group)
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        self.records.now()
    }
}

impl Logs for MemoryBackend {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        Box::pin(ready(self.logs.append(key, after, entries, bounds)))
    }

    fn read<'a>(&'a self, key: &'a str, after: LogPosition, limit: usize) -> BackendFuture<'a, Option<Vec<LogEntry>>> {
        Box::pin(ready(Ok(self.logs.read(key, after, limit))))
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            self.logs.appended(key, after).await;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.logs.remove(key);
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
