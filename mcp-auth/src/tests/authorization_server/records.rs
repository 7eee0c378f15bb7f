//! A store of records for tests.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    BackendError, BackendFuture, Insertion, MemoryRecords, Record, RecordCondition, RecordQuota, RecordVersion, Records,
};

/// Records that a test can interrupt and inspect.
#[derive(Debug, Default)]
pub(in crate::tests) struct TestRecords {
    records: MemoryRecords,
    is_down: AtomicBool,
    /// The keys that were set.
    keys: Mutex<BTreeSet<String>>,
}

impl TestRecords {
    /// Makes every operation fail from now on, or succeed again.
    pub(in crate::tests) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Returns the records that exist, with their keys.
    pub(in crate::tests) async fn stored(&self) -> Vec<(String, Record)> {
        let keys = self.keys.lock().unwrap().clone();
        let mut stored = Vec::new();
        for key in keys {
            if let Some(record) = self.records.get(&key).await.unwrap() {
                stored.push((key, record));
            }
        }
        stored
    }

    fn or_fail<'a, T: Send + 'a>(&self, result: BackendFuture<'a, T>) -> BackendFuture<'a, T> {
        if self.is_down.load(Ordering::Relaxed) {
            return Box::pin(async { Err(BackendError::Unavailable("a secret of the store".to_owned())) });
        }
        result
    }
}

impl Records for TestRecords {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.or_fail(self.records.get(key))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        if self.is_down.load(Ordering::Relaxed) {
            return self.or_fail(Box::pin(async { Ok(None) }));
        }
        self.keys.lock().unwrap().insert(key.to_owned());
        self.records.set(key, condition, value, ttl)
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        self.records.insert(group, name, value, ttl, quota)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.or_fail(self.records.delete(key, condition))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.or_fail(self.records.list(group, after, limit))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.or_fail(self.records.count(group))
    }
}
