//! A backend for the tests of this repository, which can make the operations of another backend slow or fail.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::backend::{
    Append, BackendFuture, EventLogEntry, EventLogs, Insertion, LogBounds, LogPosition, MemoryBackend, Record,
    RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSubscription, Topics, time::whole_millis,
};

/// The methods of [`Records`], [`EventLogs`] and [`Topics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendMethod {
    /// [`Records::get`].
    Get,
    /// [`Records::set`].
    Set,
    /// [`Records::insert`].
    Insert,
    /// [`Records::delete`].
    Delete,
    /// [`Records::list`].
    List,
    /// [`Records::count`].
    Count,
    /// [`Records::now`].
    Now,
    /// [`EventLogs::append`].
    Append,
    /// [`EventLogs::read`].
    Read,
    /// [`EventLogs::appended`].
    Appended,
    /// [`EventLogs::remove`].
    Remove,
    /// [`Topics::publish`].
    Publish,
    /// [`Topics::subscribe`].
    Subscribe,
}

impl BackendMethod {
    /// Returns whether the method belongs to [`Records`].
    pub fn is_record_operation(self) -> bool {
        matches!(self, Self::Get | Self::Set | Self::Insert | Self::Delete | Self::List | Self::Count | Self::Now)
    }
}

/// An operation that a [`BackendHook`] intercepts.
#[derive(Debug, Clone, Copy)]
pub struct BackendOperation<'a> {
    /// The method that was called.
    pub method: BackendMethod,
    /// The key, group or topic.
    pub key: &'a str,
    /// The value or message to write, all entries to append, or nothing.
    pub value: &'a [u8],
}

/// Decides how the operations of a [`TestBackend`] proceed.
pub trait BackendHook: fmt::Debug + Send + Sync + 'static {
    /// Returns the future that takes the place of an operation. The operation has no effect until `run` is polled.
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T>;

    /// Returns the subscription that takes the place of a new one.
    fn wrap_subscription(&self, subscription: TopicSubscription) -> TopicSubscription {
        subscription
    }
}

/// Counts the operations of an inner backend, and passes each of them to a hook. Dereferences to the hook, which tests
/// adjust.
#[derive(Debug, Default)]
pub struct TestBackend<H, B = MemoryBackend> {
    inner: Arc<B>,
    hook: H,
    operations: AtomicUsize,
    /// The number of milliseconds by which the clock of the backend is behind, for all processes.
    behind: Arc<AtomicU64>,
}

impl<H, B: Default> TestBackend<H, B> {
    /// Creates a backend with a hook.
    pub fn new(hook: H) -> Self {
        Self { inner: Arc::default(), hook, operations: AtomicUsize::new(0), behind: Arc::default() }
    }
}

impl<H: Default, B> TestBackend<H, B> {
    /// Returns another view of the same inner backend, with a count and a hook of its own, like the connection of
    /// another process.
    pub fn other_process(&self) -> Self {
        let (inner, behind) = (Arc::clone(&self.inner), Arc::clone(&self.behind));
        Self { inner, hook: H::default(), operations: AtomicUsize::new(0), behind }
    }
}

impl<H, B> TestBackend<H, B> {
    /// Returns the inner backend, whose operations are neither counted nor intercepted.
    pub fn reliable(&self) -> &B {
        &self.inner
    }

    /// Sets the clock of the backend back, relative to the clocks of all processes.
    pub fn set_clock_back(&self, by: Duration) {
        self.behind.store(whole_millis(by), Ordering::Relaxed);
    }

    /// Returns the number of operations that were started.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }
}

impl<H: BackendHook, B> TestBackend<H, B> {
    fn run<'a, T: Send + 'a>(
        &'a self,
        method: BackendMethod,
        key: &str,
        value: &[u8],
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.hook.intercept(BackendOperation { method, key, value }, run)
    }
}

impl<H, B> Deref for TestBackend<H, B> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hook
    }
}

// Backends may act as soon as a method is called. The `async` blocks defer that until the hook polls them.

impl<H: BackendHook, B: Records> Records for TestBackend<H, B> {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.run(BackendMethod::Get, key, b"", Box::pin(async move { self.inner.get(key).await }))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        let written = value.clone();
        let set = Box::pin(async move { Records::set(&*self.inner, key, condition, written, ttl).await });
        self.run(BackendMethod::Set, key, &value, set)
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        let (key, written) = (format!("{group}:{name}"), value.clone());
        let insert = Box::pin(async move { self.inner.insert(group, name, written, ttl, quota).await });
        self.run(BackendMethod::Insert, &key, &value, insert)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        let delete = Box::pin(async move { self.inner.delete(key, condition).await });
        self.run(BackendMethod::Delete, key, b"", delete)
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        let list = Box::pin(async move { self.inner.list(group, after, limit).await });
        self.run(BackendMethod::List, group, b"", list)
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.run(BackendMethod::Count, group, b"", Box::pin(async move { self.inner.count(group).await }))
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        let now = async move {
            let millis = self.inner.now().await?.as_unix_millis();
            Ok(Timestamp::from_unix_millis(millis.saturating_sub(self.behind.load(Ordering::Relaxed))))
        };
        self.run(BackendMethod::Now, "", b"", Box::pin(now))
    }
}

impl<H: BackendHook, B: EventLogs> EventLogs for TestBackend<H, B> {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        let value = entries.concat();
        let append = Box::pin(async move { self.inner.append(key, after, entries, bounds).await });
        self.run(BackendMethod::Append, key, &value, append)
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
        let read = Box::pin(async move { self.inner.read(key, after, limit).await });
        self.run(BackendMethod::Read, key, b"", read)
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        let appended = Box::pin(async move { self.inner.appended(key, after).await });
        self.run(BackendMethod::Appended, key, b"", appended)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.run(BackendMethod::Remove, key, b"", Box::pin(async move { self.inner.remove(key).await }))
    }
}

impl<H: BackendHook, B: Topics> Topics for TestBackend<H, B> {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        let sent = message.clone();
        let publish = Box::pin(async move { self.inner.publish(topic, sent).await });
        self.run(BackendMethod::Publish, topic, &message, publish)
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        let subscribe = Box::pin(async move { Ok(self.hook.wrap_subscription(self.inner.subscribe(topic).await?)) });
        self.run(BackendMethod::Subscribe, topic, b"", subscribe)
    }
}
