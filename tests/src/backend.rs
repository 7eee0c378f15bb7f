//! A backend that fails when a test says so.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    BackendError, BackendFuture, Insertion, LogBounds, LogEntry, LogPosition, Logs, MemoryBackend, Record,
    RecordCondition, RecordQuota, RecordVersion, Records, TopicEvent, TopicSender, TopicSubscription, Topics,
};
use tokio::sync::watch;

/// How an [`UnreliableBackend`] responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As the backend in memory that it wraps.
    Up,
    /// As the backend in memory, but its topics deliver nothing.
    Deaf,
    /// As the backend in memory, but publishing to topics fails.
    Mute,
    /// With an error.
    Failing,
    /// As the backend in memory, but each operation takes this long.
    Slow(Duration),
    /// Not at all until that changes.
    Hanging,
}

/// A [`MemoryBackend`] that tests interrupt. While it is not up, its subscribers miss all messages.
///
/// One view of a backend stands for the connection of one process: [`other_process`](Self::other_process) returns the
/// view of another one, which fails independently.
#[derive(Debug)]
pub struct UnreliableBackend {
    shared: Arc<MemoryBackend>,
    health: watch::Sender<Health>,
    subscribers: Mutex<Vec<tokio::task::AbortHandle>>,
    operations: AtomicUsize,
}

impl Default for UnreliableBackend {
    fn default() -> Self {
        Self::of(Arc::default())
    }
}

impl UnreliableBackend {
    fn of(shared: Arc<MemoryBackend>) -> Self {
        Self {
            shared,
            health: watch::Sender::new(Health::Up),
            subscribers: Mutex::default(),
            operations: AtomicUsize::new(0),
        }
    }

    /// Returns the same backend as another process sees it.
    pub fn other_process(&self) -> Self {
        Self::of(Arc::clone(&self.shared))
    }

    /// Returns the backend in memory, which never fails.
    pub fn reliable(&self) -> &Arc<MemoryBackend> {
        &self.shared
    }

    /// Returns how many operations of this process were attempted.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    /// Sets how the backend responds from now on. Operations that hang continue when it is up.
    pub fn set_health(&self, health: Health) {
        self.health.send_replace(health);
    }

    /// Ends all subscriptions to topics, as a backend does that gives up.
    pub fn end_subscriptions(&self) {
        self.subscribers().drain(..).for_each(|forwarding| forwarding.abort());
    }

    /// Waits until there are this many subscriptions to topics.
    pub async fn subscribed(&self, count: usize) {
        while self.subscribers().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<tokio::task::AbortHandle>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempt<'a, T: Send + 'a>(&'a self, operation: BackendFuture<'a, T>) -> BackendFuture<'a, T> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let mut health = self.health.subscribe();
            // The sender belongs to `self`.
            let _ = health.wait_for(|health| *health != Health::Hanging).await;
            let health = *health.borrow();
            if let Health::Slow(delay) = health {
                tokio::time::sleep(delay).await;
            }
            if health == Health::Failing {
                return Err(interrupted());
            }
            operation.await
        })
    }
}

fn interrupted() -> BackendError {
    BackendError::Unavailable("the test interrupts it".to_owned())
}

/// Passes messages on as long as the backend is up, and reports afterwards that some were lost.
async fn forward(mut from: TopicSubscription, to: TopicSender, mut health: watch::Receiver<Health>) {
    while let Some(event) = from.next().await {
        let is_up = matches!(*health.borrow(), Health::Up | Health::Mute | Health::Slow(_));
        match event {
            TopicEvent::Message(message) if is_up => to.send(message),
            _ => {
                let _ = health.wait_for(|health| *health == Health::Up).await;
                to.missed();
            }
        }
    }
}

impl Records for UnreliableBackend {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.attempt(self.shared.get(key))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.attempt(Records::set(&*self.shared, key, condition, value, ttl))
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        self.attempt(Box::pin(async move { self.shared.insert(group, name, value, ttl, quota).await }))
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.attempt(self.shared.delete(key, condition))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.attempt(self.shared.list(group, after, limit))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.attempt(self.shared.count(group))
    }
}

impl Logs for UnreliableBackend {
    fn append<'a>(&'a self, key: &'a str, entries: Vec<Vec<u8>>, bounds: LogBounds) -> BackendFuture<'a, LogPosition> {
        self.attempt(Box::pin(async move { self.shared.append(key, entries, bounds).await }))
    }

    fn read<'a>(&'a self, key: &'a str, after: LogPosition, limit: usize) -> BackendFuture<'a, Option<Vec<LogEntry>>> {
        self.attempt(self.shared.read(key, after, limit))
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        self.attempt(self.shared.appended(key, after))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.attempt(Box::pin(async { self.shared.remove(key).await }))
    }
}

impl Topics for UnreliableBackend {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        self.attempt(Box::pin(async move {
            if *self.health.borrow() == Health::Mute {
                return Err(interrupted());
            }
            self.shared.publish(topic, message).await
        }))
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        self.attempt(Box::pin(async move {
            let from = self.shared.subscribe(topic).await?;
            let (to, subscription) = TopicSubscription::new();
            let forwarding = tokio::spawn(forward(from, to, self.health.subscribe()));
            self.subscribers().push(forwarding.abort_handle());
            Ok(subscription)
        }))
    }
}
