//! A backend that fails when a test says so.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::backend::{
    BackendError, BackendFuture, LogBounds, LogEntry, LogPosition, Logs, MemoryBackend, Record, RecordCondition,
    RecordVersion, Records, TopicSubscription, Topics,
};

/// What an operation on a log does beside what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Fails without an effect.
    Before,
    /// Fails although it takes effect.
    After,
    /// Never resolves, and has no effect.
    Hang,
    /// The backend is full.
    Full,
}

/// A backend whose next appends fail.
#[derive(Debug, Default)]
pub(super) struct Flaky {
    memory: MemoryBackend,
    failures: Mutex<VecDeque<Failure>>,
    /// The time that it takes to read from a log.
    delay: Mutex<Duration>,
    /// Whether records cannot be written.
    is_read_only: AtomicBool,
}

impl Flaky {
    pub(super) fn fail(&self, failures: &[Failure]) {
        self.failures.lock().unwrap().extend(failures);
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    pub(super) fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.lock().unwrap().len()
    }
}

impl Logs for Flaky {
    fn append<'a>(&'a self, key: &'a str, entries: Vec<Vec<u8>>, bounds: LogBounds) -> BackendFuture<'a, LogPosition> {
        let failure = self.failures.lock().unwrap().pop_front();
        Box::pin(async move {
            if failure == Some(Failure::Hang) {
                pending::<()>().await;
            }
            if failure == Some(Failure::Full) {
                return Err(BackendError::Full);
            }
            let position = match failure {
                Some(Failure::Before) => LogPosition::START,
                _ => self.memory.append(key, entries, bounds).await?,
            };
            if failure.is_some() { Err(BackendError::Unavailable("test".to_owned())) } else { Ok(position) }
        })
    }

    fn read<'a>(&'a self, key: &'a str, after: LogPosition, limit: usize) -> BackendFuture<'a, Option<Vec<LogEntry>>> {
        let delay = *self.delay.lock().unwrap();
        Box::pin(async move {
            sleep(delay).await;
            self.memory.read(key, after, limit).await
        })
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        self.memory.appended(key, after)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.memory.remove(key)
    }
}

impl Records for Flaky {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.memory.get(key)
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        if self.is_read_only.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(BackendError::Unavailable("test".to_owned()))));
        }
        self.memory.set(key, condition, value, ttl)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.memory.delete(key, condition)
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.memory.list(group, after, limit)
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.memory.count(group)
    }
}

impl Topics for Flaky {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        self.memory.publish(topic, message)
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        self.memory.subscribe(topic)
    }
}
