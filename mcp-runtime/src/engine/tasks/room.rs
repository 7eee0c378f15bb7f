//! Makes room for tasks and their results.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    eviction::{TaskSummary, beyond_bytes, finished},
    finished::{FinishedTasks, StoredTask},
    key::{TASKS, TaskKey},
    options::TaskLimits,
    records::TaskRecords,
    task::Task,
};
use crate::backend::{BackendError, Insertion, RecordCondition, RecordQuota, RecordVersion};

/// The number of bytes that are written before those of all tasks are counted, as a part of their maximum. Each process
/// may exceed the maximum by as much.
const UNCOUNTED: usize = 16;
/// The number of records that are read at once.
const SCANNED_AT_ONCE: usize = 256;

/// Evicts finished tasks when there are too many, or when they take up too much memory.
#[derive(Debug)]
pub(super) struct TaskRoom {
    records: TaskRecords,
    /// The finished tasks that this process has ended, or found when it last looked for some.
    finished: Mutex<FinishedTasks>,
    /// The maximum number of bytes of the records and results of all tasks.
    max_bytes: usize,
    /// The number of bytes that may be written until the bytes of all tasks have to be counted.
    uncounted: AtomicUsize,
}

impl TaskRoom {
    pub(super) fn new(records: TaskRecords, max_bytes: usize) -> Self {
        Self { records, finished: Mutex::default(), max_bytes, uncounted: AtomicUsize::new(0) }
    }

    /// Records that a task has finished, so that it can be evicted.
    pub(super) fn task_finished(&self, task: StoredTask) {
        self.finished().push(task);
    }

    /// Inserts a task. If there are too many, evicts finished tasks: those of the peer itself go first, and among the
    /// tasks of one peer those that finished first. Returns `None` if too many tasks are unfinished, or if the task
    /// exists. For a peer without a name, only the total limit applies.
    pub(super) async fn insert(&self, task: &Task, limits: TaskLimits) -> Result<Option<RecordVersion>, BackendError> {
        let (peer, name) = (&*task.state.peer, task.key.name());
        let mut has_scanned = false;
        loop {
            let oldest = self.finished().oldest_of(peer).map(|oldest| oldest.key.name());
            let quota = RecordQuota {
                account: peer,
                per_account: limits.per_owner,
                total: limits.total,
                replaceable: oldest.as_deref(),
            };
            let ttl = self.records.remaining(task).await?;
            let inserted = self.records.insert(TASKS, &name, task.state.encode(), ttl, quota).await?;
            let has_room = match inserted {
                Insertion::Inserted { version, has_replaced } => {
                    if has_replaced {
                        self.replaced(peer, oldest).await;
                    }
                    return Ok(Some(version));
                }
                Insertion::Exists => false,
                Insertion::Full { of_account, in_total } => {
                    let own = (of_account + 1).saturating_sub(limits.per_owner);
                    let of_account = (!peer.is_empty()).then_some(of_account);
                    let total = (in_total + 1).saturating_sub(limits.total);
                    self.evict_finished(peer, of_account, [own, total], &mut has_scanned).await?
                }
            };
            if !has_room {
                return Ok(None);
            }
        }
    }

    /// Forgets the finished task of a peer whose record another task has replaced, and deletes its result.
    async fn replaced(&self, peer: &str, name: Option<String>) {
        let replaced = {
            let mut finished = self.finished();
            let is_oldest = finished.oldest_of(peer).map(|oldest| oldest.key.name()) == name;
            if is_oldest { finished.take(peer, false) } else { None }
        };
        if let Some(replaced) = replaced.filter(|replaced| replaced.has_result)
            && let Err(error) = self.delete_result(&replaced.key).await
        {
            tracing::debug!(%error, "cannot delete the result of a task: it will expire");
        }
    }

    /// Evicts as many tasks as a peer, and all peers, have too many. Returns `false` if too many are unfinished.
    async fn evict_finished(
        &self,
        peer: &str,
        own: Option<usize>,
        [mut excess_own, mut excess_total]: [usize; 2],
        has_scanned: &mut bool,
    ) -> Result<bool, BackendError> {
        if peer.is_empty() {
            excess_own = 0;
        }
        while excess_own > 0 || excess_total > 0 {
            // Other processes may know finished tasks of the peer.
            let may_take_others = excess_own == 0 && (*has_scanned || own.is_none_or(|own| own == 0));
            let task = self.finished().take(peer, may_take_others);
            let Some(task) = task else {
                if *has_scanned {
                    return Ok(false);
                }
                let summaries = self.summaries().await?;
                let found = finished(summaries.iter().collect()).into_iter().map(|found| found.task.clone());
                self.finished().replace(found);
                *has_scanned = true;
                continue;
            };
            if self.evict(&task).await? {
                excess_own = excess_own.saturating_sub(usize::from(task.peer == peer));
                excess_total = excess_total.saturating_sub(1);
            }
        }
        Ok(true)
    }

    /// Evicts finished tasks until a result of a peer fits. Returns `false` if it does not.
    pub(super) async fn for_bytes(&self, peer: &str, bytes: usize) -> Result<bool, BackendError> {
        if self.count_bytes(bytes) {
            return Ok(true);
        }
        let tasks = self.summaries().await?;
        let Some(evicted) = beyond_bytes(&tasks, peer, bytes, self.max_bytes) else { return Ok(false) };
        if !evicted.is_empty() {
            tracing::warn!(tasks = evicted.len(), "too many bytes of task results: evicting finished tasks");
            for evicted in &evicted {
                self.evict(&evicted.task).await?;
            }
        }
        let sum = |bytes: usize, task: &TaskSummary| bytes + task.bytes;
        let kept = bytes + tasks.iter().fold(0, sum) - evicted.iter().copied().fold(0, sum);
        self.uncounted.store((self.max_bytes - kept).min(self.max_bytes / UNCOUNTED), Ordering::Relaxed);
        Ok(true)
    }

    /// Takes bytes from those that may be written uncounted. Returns `false` if they are used up.
    pub(super) fn count_bytes(&self, bytes: usize) -> bool {
        let left =
            self.uncounted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(bytes)));
        left.is_ok_and(|left| left >= bytes)
    }

    /// Reads what decides which tasks are evicted.
    async fn summaries(&self) -> Result<Vec<TaskSummary>, BackendError> {
        let (mut summaries, mut after) = (Vec::new(), None::<String>);
        loop {
            let records = self.records.list(TASKS, after.as_deref(), SCANNED_AT_ONCE).await?;
            summaries.extend(records.iter().filter_map(|(name, record)| TaskSummary::decode(name, record)));
            match records.into_iter().nth(SCANNED_AT_ONCE - 1) {
                Some((last, _)) => after = Some(last),
                None => return Ok(summaries),
            }
        }
    }

    /// Deletes what is stored about a task. Returns `false` if the task no longer exists.
    async fn evict(&self, task: &StoredTask) -> Result<bool, BackendError> {
        if !self.records.delete(&task.key.record(), RecordCondition::Version(task.stored)).await? {
            return Ok(false);
        }
        if task.has_result {
            self.delete_result(&task.key).await?;
        }
        Ok(true)
    }

    /// Deletes a result that is not part of the record of its task.
    pub(super) async fn delete_result(&self, key: &TaskKey) -> Result<(), BackendError> {
        self.records.delete(&key.result(), RecordCondition::Always).await.map(drop)
    }

    fn finished(&self) -> MutexGuard<'_, FinishedTasks> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
