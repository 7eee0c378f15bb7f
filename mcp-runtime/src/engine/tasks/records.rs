use std::{sync::Arc, time::Duration};

use super::task::Task;
use crate::backend::{
    Backend, BackendClock, BackendError, BackendFuture, Insertion, Record, RecordCondition, RecordQuota, RecordVersion,
    Timestamp, with_timeout,
};

/// The records of tasks in a backend. Operations fail if a backend that other processes share does not respond in time.
#[derive(Debug, Clone)]
pub(super) struct TaskRecords {
    backend: Arc<dyn Backend>,
    /// The clock of the backend. `None` if no other process uses it.
    clock: Option<Arc<BackendClock>>,
}

impl TaskRecords {
    pub(super) fn new(backend: Arc<dyn Backend>, clock: Option<Arc<BackendClock>>) -> Self {
        Self { backend, clock }
    }

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

    pub(super) async fn get(&self, key: &str) -> Result<Option<Record>, BackendError> {
        self.in_time(self.backend.get(key)).await
    }

    pub(super) async fn set(
        &self,
        key: &str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Result<Option<RecordVersion>, BackendError> {
        self.in_time(self.backend.set(key, condition, value, ttl)).await
    }

    pub(super) async fn insert(
        &self,
        group: &str,
        name: &str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'_>,
    ) -> Result<Insertion, BackendError> {
        self.in_time(self.backend.insert(group, name, value, ttl, quota)).await
    }

    pub(super) async fn delete(&self, key: &str, condition: RecordCondition) -> Result<bool, BackendError> {
        self.in_time(self.backend.delete(key, condition)).await
    }

    pub(super) async fn list(
        &self,
        group: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, BackendError> {
        self.in_time(self.backend.list(group, after, limit)).await
    }

    /// Bounds the time of an operation, unless it uses only the memory of this process.
    pub(super) async fn in_time<T>(&self, operation: BackendFuture<'_, T>) -> Result<T, BackendError> {
        if self.clock.is_some() { with_timeout(operation).await } else { operation.await }
    }
}
