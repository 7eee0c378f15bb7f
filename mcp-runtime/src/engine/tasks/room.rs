//! Makes room for tasks and their results.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    eviction::{TaskSummary, beyond_bytes, beyond_limits},
    key::{TASKS, peer_group},
    limits::TaskLimits,
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
    /// The maximum number of bytes of the records and results of all tasks.
    max_bytes: usize,
    /// The number of bytes that may be written until the bytes of all tasks have to be counted.
    uncounted: AtomicUsize,
}

impl TaskRoom {
    pub(super) fn new(records: TaskRecords, max_bytes: usize) -> Self {
        Self { records, max_bytes, uncounted: AtomicUsize::new(0) }
    }

    /// Evicts finished tasks until a peer may add another one. Returns `false` if too many are unfinished.
    pub(super) async fn for_task(&self, peer: &str, limits: TaskLimits) -> Result<bool, BackendError> {
        let has_room = self.records.count(TASKS).await? < limits.total
            && (peer.is_empty() || self.records.count(&peer_group(peer)).await? < limits.per_owner);
        if has_room {
            return Ok(true);
        }
        let tasks = self.summaries().await?;
        let Some(evicted) = beyond_limits(&tasks, peer, limits) else { return Ok(false) };
        self.evict(&evicted).await?;
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
            self.evict(&evicted).await?;
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

    async fn evict(&self, tasks: &[&TaskSummary]) -> Result<(), BackendError> {
        for task in tasks {
            let condition = RecordCondition::Version(task.stored);
            if self.records.delete(&task.key.record(), condition).await? {
                self.records.delete(&task.key.result(), RecordCondition::Always).await?;
                self.records.delete(&task.key.of_peer(&task.peer), RecordCondition::Always).await?;
            }
        }
        Ok(())
    }
}
