//! A backend whose operations are measured.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Append, Backend, BackendError, BackendFuture, EventLogEntry, EventLogs, Insertion, LogBounds, LogPosition, Record,
    RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSubscription, Topics, forward_logs,
    forward_records, forward_topics,
};
use crate::telemetry::{BackendOperation, SharedTelemetry};

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
        self.telemetry.call(|telemetry| telemetry.backend_operation(&operation));
    }
}

impl fmt::Debug for MeasuredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

macro_rules! measured {
    // It waits until something happens.
    ($this:ident, Appended $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        $this.backend.$method($($argument),*)
    };
    ($this:ident, $kind:ident $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        $this.measure(stringify!($method), $this.backend.$method($($argument),*))
    };
}

forward_records!([] MeasuredBackend, self, measured);
forward_logs!([] MeasuredBackend, self, measured);
forward_topics!([] MeasuredBackend, self, measured);
