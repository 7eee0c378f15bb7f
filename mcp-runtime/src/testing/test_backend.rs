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
    RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSubscription, Topics, forward_logs,
    forward_records, forward_topics, time::whole_millis,
};
#[cfg(test)]
use crate::{backend::BackendError, stdx::debug};

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

/// Lets every operation proceed.
impl BackendHook for () {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        _: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        run
    }
}

/// Delays every operation.
#[cfg(test)]
impl BackendHook for Duration {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        _: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        Box::pin(async {
            tokio::time::sleep(*self).await;
            run.await
        })
    }
}

/// Lets an operation fail, without an effect, if the function returns an error for it.
#[cfg(test)]
pub(crate) struct Failing<F>(pub(crate) F);

#[cfg(test)]
debug!(Failing<F>, self);

#[cfg(test)]
impl<F: Fn(BackendOperation<'_>) -> Result<(), BackendError> + Send + Sync + 'static> BackendHook for Failing<F> {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        match self.0(operation) {
            Ok(()) => run,
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

/// Returns the error of an operation that fails in a test.
#[cfg(test)]
pub(crate) fn unavailable() -> BackendError {
    BackendError::Unavailable("test".to_owned())
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
macro_rules! intercepted {
    ($this:ident, Now now(), $key:expr, $value:expr) => {{
        let now = async move {
            let millis = $this.inner.now().await?.as_unix_millis();
            Ok(Timestamp::from_unix_millis(millis.saturating_sub($this.behind.load(Ordering::Relaxed))))
        };
        $this.run(BackendMethod::Now, "", b"", Box::pin(now))
    }};
    ($this:ident, Subscribe subscribe($topic:ident), $key:expr, $value:expr) => {{
        let subscribe = async move { Ok($this.hook.wrap_subscription($this.inner.subscribe($topic).await?)) };
        $this.run(BackendMethod::Subscribe, $topic, b"", Box::pin(subscribe))
    }};
    ($this:ident, $kind:ident $method:ident($($argument:ident),*), $key:expr, $value:expr) => {{
        let (key, value) = ($key.to_owned(), $value.to_vec());
        let run = Box::pin(async move { $this.inner.$method($($argument),*).await });
        $this.run(BackendMethod::$kind, &key, &value, run)
    }};
}

forward_records!([H: BackendHook, B: Records] TestBackend<H, B>, self, intercepted);
forward_logs!([H: BackendHook, B: EventLogs] TestBackend<H, B>, self, intercepted);
forward_topics!([H: BackendHook, B: Topics] TestBackend<H, B>, self, intercepted);
