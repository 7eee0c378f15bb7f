//! A backend that fails on demand.

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    BackendError, BackendFuture, LogBounds, LogEntry, LogPosition, Logs, MemoryBackend, Record, RecordCondition,
    RecordVersion, Records, TopicEvent, TopicSender, TopicSubscription, Topics,
};

/// A [`MemoryBackend`] that can lose the messages of topics, and can be unavailable.
#[derive(Debug, Default)]
pub(in crate::http) struct FlakyBackend {
    inner: MemoryBackend,
    loses_messages: AtomicBool,
    is_unavailable: AtomicBool,
    subscribers: Mutex<Vec<Arc<TopicSender>>>,
}

impl FlakyBackend {
    /// Loses the messages of all topics from now on.
    pub(in crate::http) fn lose_messages(&self) {
        self.loses_messages.store(true, Ordering::SeqCst);
    }

    /// Delivers messages again, and tells all subscribers that they may have missed some.
    pub(in crate::http) fn deliver_messages(&self) {
        self.loses_messages.store(false, Ordering::SeqCst);
        self.subscribers.lock().unwrap().iter().for_each(|subscriber| subscriber.missed());
    }

    /// Fails all operations while `is_unavailable` is set.
    pub(in crate::http) fn set_unavailable(&self, is_unavailable: bool) {
        self.is_unavailable.store(is_unavailable, Ordering::SeqCst);
    }

    /// Returns the size of the record of a session with its key, or 0 if there is none.
    pub(in crate::http) async fn session_size(&self, id: &str) -> usize {
        let key = format!("mcp/1/session/{id}");
        self.inner.get(&key).await.unwrap().map_or(0, |record| key.len() + record.value.len())
    }

    /// Returns the error of an operation, if the backend is unavailable.
    fn failure<T: Send + 'static>(&self) -> Option<BackendFuture<'static, T>> {
        let is_unavailable = self.is_unavailable.load(Ordering::SeqCst);
        is_unavailable.then(|| Box::pin(ready(Err(BackendError::Unavailable("switched off".to_owned())))) as _)
    }
}

impl Records for FlakyBackend {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.failure().unwrap_or_else(|| self.inner.get(key))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.failure().unwrap_or_else(|| self.inner.set(key, condition, value, ttl))
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.failure().unwrap_or_else(|| self.inner.delete(key, condition))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.failure().unwrap_or_else(|| self.inner.list(group, after, limit))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.failure().unwrap_or_else(|| self.inner.count(group))
    }
}

impl Logs for FlakyBackend {
    fn append<'a>(&'a self, key: &'a str, entries: Vec<Vec<u8>>, bounds: LogBounds) -> BackendFuture<'a, LogPosition> {
        self.failure().unwrap_or_else(|| self.inner.append(key, entries, bounds))
    }

    fn read<'a>(&'a self, key: &'a str, after: LogPosition, limit: usize) -> BackendFuture<'a, Option<Vec<LogEntry>>> {
        self.failure().unwrap_or_else(|| self.inner.read(key, after, limit))
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        self.failure().unwrap_or_else(|| self.inner.appended(key, after))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.failure().unwrap_or_else(|| self.inner.remove(key))
    }
}

impl Topics for FlakyBackend {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        self.failure().unwrap_or_else(|| {
            if self.loses_messages.load(Ordering::SeqCst) {
                return Box::pin(ready(Ok(())));
            }
            self.inner.publish(topic, message)
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        if let Some(failure) = self.failure() {
            return failure;
        }
        Box::pin(async move {
            let mut inner = self.inner.subscribe(topic).await?;
            let (sender, subscription) = TopicSubscription::new();
            let sender = Arc::new(sender);
            self.subscribers.lock().unwrap().push(Arc::clone(&sender));
            tokio::spawn(async move {
                while let Some(event) = inner.next().await {
                    match event {
                        TopicEvent::Message(message) => sender.send(message),
                        _ => sender.missed(),
                    }
                }
            });
            Ok(subscription)
        })
    }
}
