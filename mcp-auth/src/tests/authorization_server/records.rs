//! A store of records for tests.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    __private::{BackendHook, BackendMethod, BackendOperation, TestBackend},
    backend::{BackendError, BackendFuture, MemoryRecords, Record, Records as _},
};

/// Records that a test can interrupt and inspect.
pub(crate) type TestRecords = TestBackend<Outages, MemoryRecords>;

#[derive(Debug, Default)]
pub(crate) struct Outages {
    is_down: AtomicBool,
    /// The number of further writes of grants that fail.
    failing_grants: AtomicUsize,
    /// Whether nothing that has ended can be announced to other processes.
    is_silent: AtomicBool,
    /// The number of operations that have failed.
    failed: AtomicUsize,
    /// The keys that were set.
    keys: Mutex<BTreeSet<String>>,
}

impl Outages {
    /// Makes every operation fail from now on, or succeed again.
    pub(in crate::tests) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Makes the next writes of grants fail.
    pub(in crate::tests) fn fail_grants(&self, count: usize) {
        self.failing_grants.store(count, Ordering::Relaxed);
    }

    /// Makes the announcements of what has ended fail from now on, or succeed again.
    pub(in crate::tests) fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    pub(in crate::tests) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

impl BackendHook for Outages {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        let is_grant = operation.method == BackendMethod::Set && operation.key.contains("/grant/");
        let fails = is_grant
            && self
                .failing_grants
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1))
                .is_ok();
        let is_announcement = operation.method == BackendMethod::Insert && operation.key.contains("/ended");
        let fails = fails || (is_announcement && self.is_silent.load(Ordering::Relaxed));
        if fails || self.is_down.load(Ordering::Relaxed) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Box::pin(async { Err(BackendError::Unavailable("a secret of the store".to_owned())) });
        }
        if operation.method == BackendMethod::Set {
            self.keys.lock().unwrap().insert(operation.key.to_owned());
        }
        // Other requests may proceed, as with a store on another machine.
        Box::pin(async {
            tokio::task::yield_now().await;
            run.await
        })
    }
}

/// Lets time pass for the store, which has its own clock.
pub(in crate::tests) async fn age_records(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

/// Returns the records that exist, with their keys.
pub(in crate::tests) async fn stored(records: &TestRecords) -> Vec<(String, Record)> {
    let keys = records.keys.lock().unwrap().clone();
    let mut stored = Vec::new();
    for key in keys {
        if let Some(record) = records.reliable().get(&key).await.unwrap() {
            stored.push((key, record));
        }
    }
    stored
}
