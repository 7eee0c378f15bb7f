//! The records of tasks in a backend, and waiting for their changes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::task::Task;
use crate::{
    backend::{Backend, BackendClock, BackendError, BackendFuture, Timestamp, with_timeout},
    engine::replicas::{ReplicaHandler, Slot},
    stdx::Mutex,
};

/// The records of tasks in a backend. Operations fail if a backend that other processes share does not respond in time.
#[derive(Debug, Clone)]
pub(super) struct TaskRecords {
    pub(super) backend: Arc<dyn Backend>,
    /// The clock of the backend. `None` if no other process uses it.
    pub(super) clock: Option<Arc<BackendClock>>,
}

impl TaskRecords {
    /// Returns the time by which all processes measure the lives of tasks.
    pub(super) async fn now(&self) -> Result<Timestamp, BackendError> {
        if let Some(clock) = &self.clock {
            with_timeout(clock.update(&*self.backend, 0)).await?;
        }
        Ok(self.estimated_now())
    }

    /// Returns the time without asking the backend, if it has been asked before.
    pub(super) fn estimated_now(&self) -> Timestamp {
        self.clock.as_ref().map_or_else(Timestamp::now, |clock| clock.now())
    }

    /// Returns the time for which a task still exists.
    pub(super) async fn remaining(&self, task: &Task) -> Result<Duration, BackendError> {
        Ok(task.remaining(self.now().await?))
    }

    /// Runs an operation in limited time, unless it uses only the memory of this process.
    pub(super) async fn run<'a, T>(
        &'a self,
        operation: impl FnOnce(&'a dyn Backend) -> BackendFuture<'a, T>,
    ) -> Result<T, BackendError> {
        let operation = operation(&*self.backend);
        if self.clock.is_some() { with_timeout(operation).await } else { operation.await }
    }
}

/// The changes that this process has made or heard of, for the futures of this process that wait for them.
#[derive(Debug, Default)]
pub(super) struct TaskChanges(Mutex<Waiting>);

/// The tasks that are waited for, by id. The limits on tasks, calls and subscriptions bound their number.
type Waiting = HashMap<String, watch::Sender<Latest>>;

/// The latest version of a task that is known. `None` if it is unknown whether the task has changed.
type Latest = Option<u64>;

/// Waits for changes of one task. Changes that are announced after its creation are not missed.
#[derive(Debug)]
pub(super) struct TaskWaiter {
    changes: Arc<TaskChanges>,
    id: String,
    latest: watch::Receiver<Latest>,
    /// The time after which a task has to be loaded even if no change was announced.
    interval: Duration,
    records: TaskRecords,
}

impl TaskChanges {
    pub(super) fn watch(self: &Arc<Self>, id: &str, interval: Duration, records: TaskRecords) -> TaskWaiter {
        let mut waiting = self.0.lock();
        let latest = waiting.entry(id.to_owned()).or_insert_with(|| watch::Sender::new(None)).subscribe();
        drop(waiting);
        TaskWaiter { changes: Arc::clone(self), id: id.to_owned(), latest, interval, records }
    }

    /// Wakes the futures that wait for a newer version of a task than they have seen.
    pub(super) fn announce(&self, id: &str, version: u64) {
        if let Some(latest) = self.0.lock().get(id) {
            latest.send_if_modified(|latest| {
                let is_newer = latest.is_none_or(|latest| latest < version);
                *latest = (*latest).max(Some(version));
                is_newer
            });
        }
    }

    /// Encodes a change for other processes.
    pub(super) fn message(id: &str, version: u64) -> String {
        format!("{id} {version}")
    }
}

/// Learns of the changes that other processes make.
impl ReplicaHandler for TaskChanges {
    fn message(&self, payload: &[u8]) {
        let message = std::str::from_utf8(payload).ok().and_then(|text| text.split_once(' '));
        if let Some((id, version)) = message.and_then(|(id, version)| Some((id, version.parse().ok()?))) {
            self.announce(id, version);
        }
    }

    /// Wakes all waiting requests: changes may have been missed.
    fn missed(&self) {
        for latest in self.0.lock().values() {
            latest.send_replace(None);
        }
    }

    /// Tells the runners that their tasks may count as lost.
    fn lost(&self, _: Slot) {
        self.missed();
    }
}

impl TaskWaiter {
    /// Waits until the task has to be loaded again: it may have changed, expired, or been lost. Dropping the future
    /// loses nothing.
    pub(super) async fn changed(&mut self, task: &Task) {
        let remaining = task.remaining(self.records.estimated_now());
        let _ = timeout(remaining.min(self.interval), self.newer_than(task.state.version)).await;
    }

    /// Waits until the task may have a newer version than this one. Dropping the future loses nothing.
    async fn newer_than(&mut self, version: u64) {
        loop {
            // The sender exists as long as a receiver waits.
            if self.latest.changed().await.is_err() {
                return std::future::pending().await;
            }
            if self.latest.borrow_and_update().is_none_or(|latest| latest > version) {
                return;
            }
        }
    }
}

impl Drop for TaskWaiter {
    fn drop(&mut self) {
        let mut waiting = self.changes.0.lock();
        if waiting.get(&self.id).is_some_and(|latest| latest.receiver_count() == 1) {
            waiting.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::backend::MemoryBackend;

    fn is_woken(watch: &mut TaskWaiter, version: u64) -> bool {
        let changed = std::pin::pin!(watch.newer_than(version));
        matches!(changed.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn a_newer_version_wakes_those_who_wait() {
        let changes = Arc::new(TaskChanges::default());
        let records = TaskRecords { backend: Arc::new(MemoryBackend::default()), clock: None };
        let [mut watch, mut other] = ["1", "2"].map(|id| changes.watch(id, Duration::MAX, records.clone()));
        assert!(!is_woken(&mut watch, 0));
        for (version, seen, expected) in [(1, 0, true), (1, 0, false), (2, 2, false), (1, 1, false), (3, 2, true)] {
            changes.announce("1", version);
            assert_eq!(is_woken(&mut watch, seen), expected, "{version} after {seen}");
        }
        assert!(!is_woken(&mut other, 0));
        ReplicaHandler::message(&*changes, TaskChanges::message("2", 7).as_bytes());
        assert!(is_woken(&mut other, 6));
        for invalid in ["", "2", "2 x", "2 8 9"] {
            ReplicaHandler::message(&*changes, invalid.as_bytes());
            assert!(!is_woken(&mut other, 0), "{invalid}");
        }
        changes.missed();
        assert!(is_woken(&mut watch, 9) && is_woken(&mut other, 9));
        changes.lost(Slot::new(1).unwrap());
        assert!(is_woken(&mut watch, 9) && is_woken(&mut other, 9));
        drop((watch, other));
        assert!(changes.0.lock().is_empty());
    }
}
