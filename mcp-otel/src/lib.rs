#![doc = include_str!("../docs/crate.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "_sdk", feature = "prometheus")), allow(dead_code, unused_variables))]

mod attributes;
mod config;
#[cfg(feature = "_sdk")]
mod contents;
#[cfg(feature = "_sdk")]
mod exporter;
#[cfg(feature = "_sdk")]
mod metrics;
#[cfg(feature = "prometheus")]
mod prometheus;
#[cfg(any(feature = "_sdk", feature = "prometheus"))]
mod series;
#[cfg(all(test, feature = "http"))]
mod tests;
#[cfg(feature = "_sdk")]
mod trace;

use std::fmt;

#[cfg(feature = "_sdk")]
use mcp_runtime::telemetry::{TraceCarrier, TraceContext, Unsampled};
use mcp_runtime::{
    Server,
    telemetry::{BackendOperation, Operation, SessionEnd, Stats, StreamEnd, Telemetry},
};
#[cfg(feature = "_sdk")]
use tracing::Span;

use attributes::{Attributes, DurationMetric};
use config::Exporters;

#[cfg(feature = "_sdk")]
pub use contents::RecordContents;
#[cfg(feature = "prometheus")]
pub use prometheus::Prometheus;
#[cfg(feature = "_sdk")]
pub use trace::{headers, layer};

/// Creates the exporters that the environment names; see the [documentation of the crate](crate).
///
/// ```
/// use mcp_runtime::{Server, server};
///
/// #[server]
/// fn main(server: Server) -> Result<Server, mcp_otel::Error> {
///     Ok(mcp_otel::from_env()?.observe(server))
/// }
/// ```
///
/// # Errors
///
/// Returns an error if an exporter, protocol, propagator, endpoint or address for Prometheus is invalid or not available, if
/// the feature of an exporter or protocol is not enabled, or if a variable names a file with a certificate or key. The SDK
/// replaces other invalid values, such as an unknown sampler, by its defaults.
pub fn from_env() -> Result<Otel, Error> {
    let exporters = Exporters::of("METRICS")?;
    Ok(Otel {
        names_users: false,
        #[cfg(feature = "_sdk")]
        spans: trace::spans().clone()?,
        #[cfg(feature = "_sdk")]
        metrics: exporters.otlp.then(metrics::Metrics::from_env).transpose()?,
        #[cfg(feature = "prometheus")]
        prometheus: exporters.prometheus.then(Prometheus::listen).transpose()?,
    })
}

/// The telemetry of a server, which [`from_env`] creates. When the server ends, it flushes pending spans and measurements.
#[derive(Debug)]
pub struct Otel {
    names_users: bool,
    #[cfg(feature = "_sdk")]
    spans: trace::Spans,
    #[cfg(feature = "_sdk")]
    metrics: Option<metrics::Metrics>,
    #[cfg(feature = "prometheus")]
    prometheus: Option<Prometheus>,
}

impl Otel {
    /// Records the [principal](mcp_runtime::Caller::principal) of the client in spans, as `enduser.id`.
    #[must_use]
    pub fn name_users(mut self) -> Self {
        self.names_users = true;
        self
    }

    /// Sets metrics for Prometheus, which the application serves itself. If several servers share them, the gauges and
    /// counters are read from the server that is built first.
    #[cfg(feature = "prometheus")]
    #[must_use]
    pub fn with_prometheus(mut self, prometheus: &Prometheus) -> Self {
        self.prometheus = Some(prometheus.clone());
        self
    }

    /// Connects a server. If nothing is exported, returns the server unchanged, without overhead.
    pub fn observe(self, server: Server) -> Server {
        if self.is_off() { server } else { server.telemetry(self) }
    }

    fn is_off(&self) -> bool {
        #[cfg(feature = "_sdk")]
        if !matches!(self.spans, trace::Spans::Off) {
            return false;
        }
        !self.has_metrics()
    }

    fn has_metrics(&self) -> bool {
        #[cfg(feature = "_sdk")]
        if self.metrics.is_some() {
            return true;
        }
        #[cfg(feature = "prometheus")]
        if self.prometheus.is_some() {
            return true;
        }
        false
    }

    fn record_operation(&self, duration: DurationMetric, operation: &Operation<'_>) {
        let status_code = operation.status_code.map(|code| code.to_string());
        self.record(duration, || attributes::of_operation(operation, status_code.as_deref()), operation.duration);
    }

    fn record<'a>(
        &self,
        duration: DurationMetric,
        attributes: impl FnOnce() -> Attributes<'a>,
        time: std::time::Duration,
    ) {
        if !self.has_metrics() {
            return;
        }
        let attributes = &attributes();
        #[cfg(feature = "_sdk")]
        if let Some(metrics) = &self.metrics {
            metrics.record(duration, attributes, time);
        }
        #[cfg(feature = "prometheus")]
        if let Some(prometheus) = &self.prometheus {
            prometheus.record(duration, attributes, time);
        }
    }
}

impl Telemetry for Otel {
    fn connect(&self, stats: Stats) {
        #[cfg(feature = "_sdk")]
        if let Some(metrics) = &self.metrics {
            metrics.connect(&stats);
        }
        #[cfg(feature = "prometheus")]
        if let Some(prometheus) = &self.prometheus {
            prometheus.connect(stats);
        }
    }

    #[cfg(feature = "_sdk")]
    fn unsampled(&self, context: &TraceContext<'_>) -> Option<Unsampled> {
        self.spans.unsampled(context, self.has_metrics())
    }

    #[cfg(feature = "_sdk")]
    fn span_created(&self, span: &Span, context: &TraceContext<'_>) {
        if !matches!(self.spans, trace::Spans::Off) {
            trace::span_created(span, context);
        }
    }

    #[cfg(feature = "_sdk")]
    fn span_continues(&self, span: &Span, earlier: &TraceCarrier<'_>) {
        trace::link(span, earlier);
    }

    #[cfg(feature = "_sdk")]
    fn inject(&self, span: &Span) -> TraceCarrier<'static> {
        if matches!(self.spans, trace::Spans::Off) { TraceCarrier::default() } else { trace::inject(span) }
    }

    fn server_operation(&self, operation: &Operation<'_>) {
        self.record_operation(DurationMetric::ServerOperation, operation);
    }

    fn client_operation(&self, operation: &Operation<'_>) {
        self.record_operation(DurationMetric::ClientOperation, operation);
    }

    fn task_operation(&self, operation: &Operation<'_>) {
        self.record_operation(DurationMetric::Task, operation);
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        self.record(DurationMetric::Session, || attributes::of_session(session), session.duration);
    }

    fn stream_ended(&self, stream: &StreamEnd) {
        self.record(DurationMetric::Stream, || attributes::of_stream(stream), stream.duration);
    }

    fn backend_operation(&self, operation: &BackendOperation) {
        self.record(DurationMetric::Backend, || attributes::of_backend(operation), operation.duration);
    }

    fn names_users(&self) -> bool {
        self.names_users
    }

    // The layer exports no span of this kind.
    fn names_users_in_log(&self) -> bool {
        true
    }
}

impl Drop for Otel {
    fn drop(&mut self) {
        #[cfg(feature = "_sdk")]
        {
            if let Some(metrics) = &self.metrics {
                metrics.shutdown();
            }
            if let trace::Spans::Export(provider, ..) = &self.spans {
                // Other servers of the program may still use it. The exporter logs its failures.
                let _ = provider.force_flush();
            }
        }
    }
}

/// An invalid configuration.
#[derive(Debug, Clone)]
pub struct Error(String);

impl Error {
    #[cfg(any(feature = "_sdk", feature = "prometheus"))]
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot set up telemetry: {}", self.0)
    }
}

impl std::error::Error for Error {}
