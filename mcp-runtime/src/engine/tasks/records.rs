use std::{sync::Arc, time::Duration};

use crate::backend::{
    Backend, BackendError, BackendFuture, Insertion, Record, RecordCondition, RecordQuota, RecordVersion, respond,
};

/// The records of tasks in a backend. Operations fail if a backend that other processes share does not respond in time.
#[derive(Debug, Clone)]
pub(super) struct TaskRecords {
    backend: Arc<dyn Backend>,
    is_shared: bool,
}

impl TaskRecords {
    pub(super) fn new(backend: Arc<dyn Backend>, is_shared: bool) -> Self {
        Self { backend, is_shared }
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
        if self.is_shared { respond(operation).await } else { operation.await }
    }
}
