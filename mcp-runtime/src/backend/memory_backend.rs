//! The default backend: records, logs and topics in the memory of this process.

use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};

use super::{
    error::{BackendError, BackendFuture},
    logs::{Append, EventLogEntry, EventLogs, LogBounds, LogPosition},
    memory_logs::MemoryLogs,
    memory_records::MemoryRecords,
    records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records, forward_records},
    time::Timestamp,
    topics::{TopicSender, TopicSubscription, Topics},
};
use crate::{debug::debug, mutex::Mutex};

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
        Box::pin(ready(self.logs.append(key, after, entries, bounds)))
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
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

/// The maximum number of subscriptions.
const MAX_SUBSCRIPTIONS: usize = 200_000;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 1024;

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The topics of a [`MemoryBackend`](super::MemoryBackend).
#[derive(Default)]
pub(super) struct MemoryTopics(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    by_topic: HashMap<Box<str>, Vec<TopicSender>>,
    /// The number of senders, including the senders whose subscriptions were dropped since the last sweep.
    count: usize,
    /// The number of senders at which the next sweep takes place.
    sweep_at: usize,
}

impl MemoryTopics {
    pub(super) fn publish(&self, topic: &str, message: Vec<u8>) -> Result<(), BackendError> {
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

    pub(super) fn subscribe(&self, topic: &str) -> Result<TopicSubscription, BackendError> {
        let mut subscribers = self.0.lock();
        subscribers.sweep();
        if topic.len() > MAX_NAME || subscribers.count >= MAX_SUBSCRIPTIONS {
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
}
