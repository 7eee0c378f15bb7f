//! Tasks as records of the backend.
//!
//! A task is one record, so that every change of it is atomic. Its result is a record of its own if it is long, and an
//! empty record counts it for its peer.

use std::{
    collections::HashSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Mutex, time::timeout};

use super::{
    changes::{TaskChanges, TaskWatch},
    eviction::{TaskSummary, beyond_bytes, beyond_limits},
    key::{TASKS, TaskKey, peer_group},
    limits::TaskLimits,
    task::{StoredOutcome, Task, TaskState},
    update::{Updated, update},
};
use crate::{
    backend::{Backend, BackendError, BackendFuture, RecordCondition, respond},
    engine::replica::{Replica, ReplicaHandler, Slot},
};

/// The kind of the messages between processes that announce a change of a task.
const CHANGED: &str = "task";
/// The maximum number of bytes of the records and results of all tasks. Finished tasks beyond it are evicted.
const MAX_BYTES: usize = 256 << 20;
/// The number of bytes that are written before the store counts how many it keeps, as a part of the maximum. Each
/// process may exceed the maximum by as much.
const UNCOUNTED: usize = 16;
/// The maximum length of a result that is stored in the record of its task.
const MAX_INLINE: usize = 2048;
/// The number of records that are read at once.
const SCANNED_AT_ONCE: usize = 256;
/// A process that waits for a task looks this often, within the time of a lease, whether the task was lost or a message
/// was.
const CHECKS_PER_LEASE: u32 = 5;

/// The tasks of a server, or of all servers that share a backend.
#[derive(Debug)]
pub(crate) struct TaskStore {
    backend: Arc<dyn Backend>,
    /// This process among those that share the backend. `None` if no other process uses it.
    replica: Option<Arc<Replica>>,
    changes: Arc<TaskChanges>,
    /// Held while a task is inserted, so that concurrent insertions keep the limits.
    inserting: Mutex<()>,
    max_bytes: usize,
    /// The number of bytes that may be written until the bytes of all tasks have to be counted.
    uncounted: AtomicUsize,
}

impl TaskStore {
    pub(crate) fn new(backend: Arc<dyn Backend>, replica: Option<Arc<Replica>>) -> Self {
        Self::with_max_bytes(backend, replica, MAX_BYTES)
    }

    pub(super) fn with_max_bytes(backend: Arc<dyn Backend>, replica: Option<Arc<Replica>>, max_bytes: usize) -> Self {
        let changes = Arc::<TaskChanges>::default();
        if let Some(replica) = &replica {
            replica.add_handler(CHANGED, Arc::downgrade(&changes) as Weak<dyn ReplicaHandler>);
        }
        Self { backend, replica, changes, inserting: Mutex::default(), max_bytes, uncounted: AtomicUsize::new(0) }
    }

    /// Adds a task that this process runs. Returns `false` if there are too many.
    ///
    /// # Cancel safety
    ///
    /// A task whose insertion was dropped or has failed may exist. No process runs it, and nobody knows its id.
    pub(super) async fn insert(&self, task: &mut Task, limits: TaskLimits) -> Result<bool, BackendError> {
        let insert = async {
            let _inserting = self.inserting.lock().await;
            self.insert_locked(task, limits).await
        };
        let inserted = if self.replica.is_some() { respond(Box::pin(insert)).await } else { insert.await };
        if inserted == Err(BackendError::Full) { Ok(false) } else { inserted }
    }

    async fn insert_locked(&self, task: &mut Task, limits: TaskLimits) -> Result<bool, BackendError> {
        if let Some(replica) = &self.replica {
            task.state.runner = Some(runner_id(replica.join().await?));
        }
        if !self.make_room(&task.state.peer, limits).await? {
            return Ok(false);
        }
        let (ttl, absent) = (task.remaining(), RecordCondition::Absent);
        if !task.state.peer.is_empty() {
            // If this fails or is all that takes effect, the peer has one task less until the time to live has passed.
            self.backend.set(&task.key.of_peer(&task.state.peer), absent, Vec::new(), ttl).await?;
        }
        let stored = self.backend.set(&task.key.record(), absent, task.state.encode(), ttl).await?;
        stored.inspect(|stored| task.stored = *stored);
        Ok(stored.is_some())
    }

    /// Evicts finished tasks until a peer may add another one. Returns `false` if too many are unfinished.
    async fn make_room(&self, peer: &str, limits: TaskLimits) -> Result<bool, BackendError> {
        let has_room = self.backend.count(TASKS).await? < limits.total
            && (peer.is_empty() || self.backend.count(&peer_group(peer)).await? < limits.per_owner);
        if has_room {
            return Ok(true);
        }
        let tasks = self.summaries().await?;
        let Some(evicted) = beyond_limits(&tasks, peer, limits) else { return Ok(false) };
        self.evict(&evicted).await?;
        Ok(true)
    }

    /// Returns a task, or `None` if it is unknown or has expired. A task whose process is gone has failed.
    pub(super) async fn load(&self, key: &TaskKey) -> Result<Option<Task>, BackendError> {
        match self.read(key).await? {
            Some(task) => self.fail_if_lost(task, &mut HashSet::new()).await,
            None => Ok(None),
        }
    }

    /// Returns a task as it is stored, or `None` if it is unknown or has expired.
    pub(super) async fn read(&self, key: &TaskKey) -> Result<Option<Task>, BackendError> {
        let record = self.in_time(self.backend.get(&key.record())).await?;
        let task = record.and_then(|record| Task::decode(key.clone(), &record));
        Ok(task.filter(|task| !task.remaining().is_zero()))
    }

    /// Lists at most `limit` tasks of an owner in the order of their creation, after the task `after` if there is one,
    /// even if it no longer exists.
    pub(super) async fn page(
        &self,
        owner: &str,
        after: Option<&TaskKey>,
        limit: usize,
    ) -> Result<Vec<Task>, BackendError> {
        let prefix = TaskKey::prefix(owner);
        let after = after.map_or_else(|| prefix.clone(), TaskKey::name);
        let records = self.in_time(self.backend.list(TASKS, Some(&after), limit)).await?;
        let (mut page, mut alive) = (Vec::new(), HashSet::new());
        for (name, record) in records.iter().take_while(|(name, _)| name.starts_with(&prefix)) {
            if let Some(task) = TaskKey::of_name(name).and_then(|key| Task::decode(key, record)) {
                page.extend(self.fail_if_lost(task, &mut alive).await?);
            }
        }
        Ok(page)
    }

    /// Returns a task, which fails if the process that runs it is gone. Returns `None` if the task has expired.
    ///
    /// `alive` contains replicas that need not be checked again.
    async fn fail_if_lost(&self, task: Task, alive: &mut HashSet<u64>) -> Result<Option<Task>, BackendError> {
        let Some(replica) = &self.replica else { return Ok(Some(task)) };
        let Some(runner) = task.state.runner.filter(|_| !task.state.status.is_final()) else { return Ok(Some(task)) };
        if alive.contains(&runner) {
            return Ok(Some(task));
        }
        if let Some(slot) = Slot::of_id(runner)
            && replica.is_alive(slot).await?
        {
            alive.insert(runner);
            return Ok(Some(task));
        }
        // Another process may do the same, and the task may have ended before its process did.
        let lost = update(self, task, |state| {
            if state.runner == Some(runner) {
                state.fail_as_lost();
            }
        });
        match lost.await? {
            Updated::Applied(task) | Updated::Finished(task) => Ok(Some(task)),
            Updated::Expired => Ok(None),
        }
    }

    /// Replaces the state of a task. Returns `None` if the task was changed or has expired since it was read.
    ///
    /// If this fails, the state may have been replaced or not.
    pub(super) async fn replace(&self, task: &Task, state: TaskState) -> Result<Option<Task>, BackendError> {
        let (key, value, condition) = (task.key.record(), state.encode(), RecordCondition::Version(task.stored));
        let ttl = task.remaining();
        self.count_bytes(value.len());
        let Some(stored) = self.in_time(self.backend.set(&key, condition, value, ttl)).await? else {
            return Ok(None);
        };
        let replaced = Task { key: task.key.clone(), stored, state };
        self.announce(&replaced).await;
        Ok(Some(replaced))
    }

    async fn announce(&self, task: &Task) {
        let (id, version) = (task.id(), task.state.version);
        self.changes.announce(id, version);
        if let Some(replica) = &self.replica
            && let Err(error) = replica.announce(CHANGED, TaskChanges::message(id, version).as_bytes()).await
        {
            tracing::debug!(%error, "cannot announce the change of a task: others will notice it late");
        }
    }

    /// Stores the JSON of the outcome of a task. Returns `None` if it is too large to be kept.
    pub(super) async fn store_outcome(&self, task: &Task, json: &str) -> Result<Option<StoredOutcome>, BackendError> {
        let bytes = json.len();
        if bytes <= MAX_INLINE {
            return Ok(Some(StoredOutcome::Inline(json.to_owned())));
        }
        if !self.make_memory(&task.state.peer, bytes).await? {
            return Ok(None);
        }
        let (key, ttl) = (task.key.result(), task.remaining());
        match self.in_time(self.backend.set(&key, RecordCondition::Always, json.into(), ttl)).await {
            Ok(_) => Ok(Some(StoredOutcome::Separate { bytes })),
            Err(BackendError::Full) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the JSON of the outcome of a task, or `None` if it has none or was evicted.
    pub(super) async fn outcome(&self, task: &Task) -> Result<Option<Arc<[u8]>>, BackendError> {
        match &task.state.outcome {
            Some(StoredOutcome::Inline(json)) => Ok(Some(json.as_bytes().into())),
            Some(StoredOutcome::Separate { .. }) => {
                let record = self.in_time(self.backend.get(&task.key.result())).await?;
                Ok(record.map(|record| record.value))
            }
            None => Ok(None),
        }
    }

    /// Deletes a stored outcome that is not part of its task, since the task was cancelled or has expired meanwhile.
    pub(super) async fn delete_outcome(&self, key: &TaskKey) {
        if let Err(error) = self.in_time(self.backend.delete(&key.result(), RecordCondition::Always)).await {
            tracing::debug!(%error, "cannot delete the result of a task: it will expire");
        }
    }

    /// Evicts finished tasks until a result of a peer fits. Returns `false` if it does not.
    async fn make_memory(&self, peer: &str, bytes: usize) -> Result<bool, BackendError> {
        if self.count_bytes(bytes) {
            return Ok(true);
        }
        let tasks = self.summaries().await?;
        let Some(evicted) = beyond_bytes(&tasks, peer, bytes, self.max_bytes) else { return Ok(false) };
        if !evicted.is_empty() {
            tracing::warn!(tasks = evicted.len(), "too many bytes of task results: evicting finished tasks");
            self.evict(&evicted).await?;
        }
        let sum = |bytes: usize, task: &TaskSummary| bytes + task.bytes;
        let kept = bytes + tasks.iter().fold(0, sum) - evicted.iter().copied().fold(0, sum);
        self.uncounted.store((self.max_bytes - kept).min(self.max_bytes / UNCOUNTED), Ordering::Relaxed);
        Ok(true)
    }

    /// Takes bytes from those that may be written uncounted. Returns `false` if they are used up.
    fn count_bytes(&self, bytes: usize) -> bool {
        let left =
            self.uncounted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(bytes)));
        left.is_ok_and(|left| left >= bytes)
    }

    /// Reads what decides which tasks are evicted.
    async fn summaries(&self) -> Result<Vec<TaskSummary>, BackendError> {
        let (mut summaries, mut after) = (Vec::new(), None::<String>);
        loop {
            let records = self.in_time(self.backend.list(TASKS, after.as_deref(), SCANNED_AT_ONCE)).await?;
            summaries.extend(records.iter().filter_map(|(name, record)| TaskSummary::decode(name, record)));
            match records.into_iter().nth(SCANNED_AT_ONCE - 1) {
                Some((last, _)) => after = Some(last),
                None => return Ok(summaries),
            }
        }
    }

    async fn evict(&self, tasks: &[&TaskSummary]) -> Result<(), BackendError> {
        for task in tasks {
            let condition = RecordCondition::Version(task.stored);
            if self.in_time(self.backend.delete(&task.key.record(), condition)).await? {
                self.in_time(self.backend.delete(&task.key.result(), RecordCondition::Always)).await?;
                self.in_time(self.backend.delete(&task.key.of_peer(&task.peer), RecordCondition::Always)).await?;
            }
        }
        Ok(())
    }

    /// Begins to wait for changes of a task that this process has just inserted.
    pub(super) fn watch_own(&self, key: &TaskKey) -> TaskWaiter {
        let interval = self.replica.as_ref().map_or(Duration::MAX, |replica| replica.lease() / CHECKS_PER_LEASE);
        TaskWaiter { watch: self.changes.watch(key.id()), interval }
    }

    /// Begins to wait for changes of a task.
    pub(super) async fn watch(&self, key: &TaskKey) -> TaskWaiter {
        let waiter = self.watch_own(key);
        if let Some(replica) = &self.replica
            && let Err(error) = replica.join().await
        {
            tracing::debug!(%error, "changes of tasks by other processes will be noticed late");
        }
        waiter
    }

    /// Returns the id of this process as a runner. `None` if no other process uses the backend, or if it has none now.
    pub(super) fn runner(&self) -> Option<u64> {
        self.replica.as_ref()?.slot().map(runner_id)
    }

    /// Bounds the time of an operation, unless it uses only the memory of this process.
    async fn in_time<T>(&self, operation: BackendFuture<'_, T>) -> Result<T, BackendError> {
        if self.replica.is_some() { respond(operation).await } else { operation.await }
    }
}

fn runner_id(slot: Slot) -> u64 {
    slot.id(0)
}

/// Waits for changes of one task.
pub(super) struct TaskWaiter {
    watch: TaskWatch,
    /// The time after which a task has to be loaded even if no change was announced.
    interval: Duration,
}

impl TaskWaiter {
    /// Waits until the task has to be loaded again: it may have changed, expired, or been lost. Dropping the future
    /// loses nothing.
    pub(super) async fn changed(&mut self, task: &Task) {
        let _ = timeout(task.remaining().min(self.interval), self.watch.changed(task.state.version)).await;
    }
}
