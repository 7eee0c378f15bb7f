//! Makes room for tasks and their results.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    eviction::{TaskSummary, beyond_bytes, finished},
    finished::{FinishedTasks, StoredTask},
    key::{TASKS, peer_group},
    options::TaskLimits,
    records::TaskRecords,
};
use crate::backend::{BackendError, RecordCondition};

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

    /// Evicts finished tasks until a peer may add another task. The tasks of the peer itself go first, and among the
    /// tasks of one peer those that finished first. Returns `false` if too many tasks are unfinished. For a peer
    /// without a name, only the total limit applies.
    pub(super) async fn for_task(&self, peer: &str, limits: TaskLimits) -> Result<bool, BackendError> {
        let own = if peer.is_empty() { None } else { Some(self.records.count(&peer_group(peer)).await?) };
        let excess = |count: usize, limit: usize| (count + 1).saturating_sub(limit);
        let mut excess_own = own.map_or(0, |own| excess(own, limits.per_owner));
        let mut excess_total = excess(self.records.count(TASKS).await?, limits.total);
        let mut has_scanned = false;
        while excess_own > 0 || excess_total > 0 {
            // Other processes may know finished tasks of the peer.
            let may_take_others = excess_own == 0 && (has_scanned || own.is_none_or(|own| own == 0));
            let task = self.finished().take(peer, may_take_others);
            let Some(task) = task else {
                if has_scanned {
                    return Ok(false);
                }
                let summaries = self.summaries().await?;
                let found = finished(summaries.iter().collect()).into_iter().map(|found| found.task.clone());
                self.finished().replace(found);
                has_scanned = true;
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
        self.records.delete(&task.key.result(), RecordCondition::Always).await?;
        if !task.peer.is_empty() {
            self.records.delete(&task.key.of_peer(&task.peer), RecordCondition::Always).await?;
        }
        Ok(true)
    }

    fn finished(&self) -> MutexGuard<'_, FinishedTasks> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
