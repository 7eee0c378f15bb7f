//! A backend whose operations are measured.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Append, Backend, BackendError, BackendFuture, EventLogEntry, EventLogs, Insertion, LogBounds, LogPosition, Record,
    RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSubscription, Topics,
};
use crate::telemetry::{BackendOperation, SharedTelemetry, Telemetry as _};

/// A shared backend, and the telemetry that records its operations.
pub(crate) struct MeasuredBackend {
    backend: Arc<dyn Backend>,
    telemetry: SharedTelemetry,
}

impl MeasuredBackend {
    pub(crate) fn new(backend: Arc<dyn Backend>, telemetry: SharedTelemetry) -> Self {
        Self { backend, telemetry }
    }

    fn measure<'a, T>(&'a self, name: &'static str, operation: BackendFuture<'a, T>) -> BackendFuture<'a, T>
    where
        T: Send + 'a,
    {
        let measure = Measure { telemetry: &self.telemetry, name, start: Instant::now(), error: Some("cancelled") };
        Box::pin(async move {
            let mut measure = measure;
            let result = operation.await;
            measure.error = result.as_ref().err().map(|error| match error {
                BackendError::Full => "full",
                BackendError::Unavailable(_) => "unavailable",
            });
            result
        })
    }
}

/// Records an operation when it is dropped. An operation that is dropped before its end was cancelled, usually by a time
/// limit.
struct Measure<'a> {
    telemetry: &'a SharedTelemetry,
    name: &'static str,
    start: Instant,
    error: Option<&'static str>,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        let operation = BackendOperation { name: self.name, error_type: self.error, duration: self.start.elapsed() };
        self.telemetry.backend_operation(&operation);
    }
}

impl fmt::Debug for MeasuredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

impl Records for MeasuredBackend {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.measure("get", self.backend.get(key))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.measure("set", self.backend.set(key, condition, value, ttl))
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        self.measure("insert", self.backend.insert(group, name, value, ttl, quota))
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.measure("delete", self.backend.delete(key, condition))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.measure("list", self.backend.list(group, after, limit))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.measure("count", self.backend.count(group))
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        self.measure("now", self.backend.now())
    }
}

impl EventLogs for MeasuredBackend {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        self.measure("append", self.backend.append(key, after, entries, bounds))
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
        self.measure("read", self.backend.read(key, after, limit))
    }

    /// Not measured: it waits until something happens.
    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        self.backend.appended(key, after)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.measure("remove", self.backend.remove(key))
    }
}

impl Topics for MeasuredBackend {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        self.measure("publish", self.backend.publish(topic, message))
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        self.measure("subscribe", self.backend.subscribe(topic))
    }
}
