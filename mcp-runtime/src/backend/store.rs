//! The trait of task stores.

use std::{error::Error, fmt, pin::Pin, sync::Arc};

use super::record::{TaskCursor, TaskRecord};

/// The future that every method of a [`TaskStore`] returns.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskStoreError>> + Send + 'a>>;

/// Storage for tasks: [`MemoryTasks`](crate::MemoryTasks) unless
/// [`Server::task_store`](crate::Server::task_store) sets another one.
///
/// A store that several processes share lets a client ask any of them about its task. The function itself runs in the
/// process that received the call. If that process ends, the task stays `working` until it expires.
///
/// ```
/// use mcp_runtime::{MemoryTasks, Server};
///
/// let server = Server::empty("jobs", "1.0.0").task_store(MemoryTasks::default());
/// assert!(server.check().is_ok());
/// ```
///
/// # Callers
///
/// The process that received the call inserts the task before its client learns the id. From then on, that process
/// *runs* the task: it waits for changes, and replaces the record when the function reports progress, sends a request
/// to its client, or finishes. Any process, including the one that runs the task, loads and lists tasks for clients,
/// waits for changes for `tasks/result` and `subscriptions/listen`, and replaces a record to cancel its task or to
/// store a response. The methods are therefore called concurrently, even for the same task.
///
/// # Atomicity
///
/// [`insert`](Self::insert) and [`replace`](Self::replace) are atomic. When one of them has resolved to `true`, every
/// later [`load`](Self::load) in any process returns that record or a newer one. Exactly one of several concurrent
/// replacements with the same version succeeds; the runtime reloads and retries the others.
///
/// # Expiry
///
/// A task that has [expired](TaskRecord::expires), finished or not, no longer exists: no method returns it, and it
/// counts towards no limit. Before that, only `insert` may evict a task, and only a finished one.
///
/// # Cancel safety
///
/// The runtime drops futures before they resolve: when a request times out or is cancelled, when the function finishes
/// while its process waits for changes, or at shutdown. A dropped `insert` or `replace` may still take effect, but
/// never in part. A task whose insertion was dropped is not run by any process and eventually expires.
///
/// # Errors
///
/// A failed operation may or may not have written the record. Errors are logged; the client only learns that the server
/// failed. An error fails the request in which it occurs. If it occurs in the process that runs the task, that process
/// drops the function and marks the task as failed, retrying for a few seconds while the store keeps failing.
pub trait TaskStore: fmt::Debug + Send + Sync + 'static {
    /// Adds a task. Resolves to `false`, leaving the store as it was, if the id is taken or a limit is reached.
    ///
    /// A full store should first evict [finished](crate::TaskStatus::is_final) tasks, those of the same owner before
    /// all others.
    fn insert(&self, task: TaskRecord, limits: TaskLimits) -> StoreFuture<'_, bool>;

    /// Returns a task, or `None` if it is unknown or has expired.
    fn load<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>>;

    /// Replaces the task with the same id if its version is one less than the new one. Otherwise resolves to `false`
    /// and changes nothing.
    fn replace(&self, task: TaskRecord) -> StoreFuture<'_, bool>;

    /// Lists at most `limit` tasks of an owner in the order of their [cursors](TaskRecord::cursor). Starts after the
    /// cursor `after` if there is one, even if the task of that cursor no longer exists.
    fn page<'a>(
        &'a self,
        owner: &'a str,
        after: Option<&'a TaskCursor>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<TaskRecord>>;

    /// Waits until the version of a task differs from `version`, or the task is gone. Resolves at once if that is
    /// already the case, and may resolve spuriously.
    fn changed<'a>(&'a self, id: &'a str, version: u64) -> StoreFuture<'a, ()>;
}

impl<T: TaskStore + ?Sized> TaskStore for Arc<T> {
    fn insert(&self, task: TaskRecord, limits: TaskLimits) -> StoreFuture<'_, bool> {
        (**self).insert(task, limits)
    }

    fn load<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        (**self).load(id)
    }

    fn replace(&self, task: TaskRecord) -> StoreFuture<'_, bool> {
        (**self).replace(task)
    }

    fn page<'a>(
        &'a self,
        owner: &'a str,
        after: Option<&'a TaskCursor>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<TaskRecord>> {
        (**self).page(owner, after, limit)
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> StoreFuture<'a, ()> {
        (**self).changed(id, version)
    }
}

/// The maximum numbers of tasks in a store, including finished ones.
///
/// ```
/// use mcp_runtime::TaskLimits;
///
/// let limits = TaskLimits::default().total(4096).per_owner(16);
/// assert_eq!(limits.per_owner, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The maximum number of tasks of all owners.
    pub total: usize,
    /// The maximum number of tasks of the new task's owner.
    pub per_owner: usize,
}

impl Default for TaskLimits {
    /// Returns the default limits: 1024 tasks in total and 128 per owner.
    fn default() -> Self {
        Self { total: 1024, per_owner: 128 }
    }
}

impl TaskLimits {
    /// Sets the maximum number of tasks of all owners.
    #[must_use]
    pub fn total(mut self, total: usize) -> Self {
        self.total = total;
        self
    }

    /// Sets the maximum number of tasks of one owner.
    #[must_use]
    pub fn per_owner(mut self, per_owner: usize) -> Self {
        self.per_owner = per_owner;
        self
    }
}

/// The error of a [`TaskStore`] operation. The server logs it and does not show it to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStoreError(String);

impl TaskStoreError {
    /// Creates an error from a message for the log.
    pub fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl fmt::Display for TaskStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TaskStoreError {}
