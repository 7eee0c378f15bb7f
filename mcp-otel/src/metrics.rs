//! Measurements through the OpenTelemetry SDK.

use std::sync::{Arc, Mutex, PoisonError};

use mcp_runtime::telemetry::{Stat, Stats};
use opentelemetry::{
    KeyValue,
    metrics::{BoundHistogram, Histogram, Meter, MeterProvider as _},
};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use crate::{
    Error,
    attributes::{Attributes, DurationMetric},
    exporter,
    series::Series,
    trace,
};

/// The statistics of a server, which are read once for all instruments of a collection.
#[derive(Debug)]
struct Reading {
    stats: Stats,
    /// The statistics of the last reading that no instrument has taken.
    last: Mutex<Vec<Stat>>,
}

impl Reading {
    /// Removes the statistics of an instrument. They are read again if it has taken them before.
    fn take(&self, name: &str) -> Vec<Stat> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.iter().any(|stat| stat.name == name) {
            *last = self.stats.read();
        }
        last.extract_if(.., |stat| stat.name == name).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Metrics {
    provider: SdkMeterProvider,
    meter: Meter,
    /// The histograms with their series, each bound once: to look one up for a measurement, the SDK takes a lock that all cores
    /// write.
    durations: [(Histogram<f64>, Series<BoundHistogram<f64>>); DurationMetric::ALL.len()],
}

impl Metrics {
    pub(crate) fn from_env() -> Result<Self, Error> {
        let provider = SdkMeterProvider::builder().with_resource(trace::resource());
        Ok(Self::new(provider.with_periodic_exporter(exporter::metrics()?).build()))
    }

    pub(crate) fn new(provider: SdkMeterProvider) -> Self {
        let meter = provider.meter("mcp-runtime");
        let durations = DurationMetric::ALL.map(|duration| {
            let (name, description) = duration.describe();
            let histogram = meter.f64_histogram(name).with_description(description).with_unit("s");
            (histogram.with_boundaries(duration.buckets().to_vec()).build(), Series::default())
        });
        Self { provider, meter, durations }
    }

    /// Creates an instrument for each metric of a server.
    pub(crate) fn connect(&self, stats: &Stats) {
        let all = stats.read();
        let reading = Arc::new(Reading { stats: stats.clone(), last: Mutex::default() });
        for metric in all.chunk_by(|a, b| a.name == b.name) {
            let first = metric[0];
            let reading = Arc::clone(&reading);
            let values = move || {
                reading.take(first.name).into_iter().map(|stat| {
                    let attributes = stat.attribute.map(|(name, value)| KeyValue::new(name, value));
                    (stat.value, attributes)
                })
            };
            if first.is_counter {
                let counter = self.meter.u64_observable_counter(first.name).with_description(first.description);
                let observe = counter.with_unit(first.unit).with_callback(move |observer| {
                    values().for_each(|(value, attributes)| observer.observe(value, attributes.as_slice()));
                });
                observe.build();
            } else {
                let gauge = self.meter.i64_observable_up_down_counter(first.name).with_description(first.description);
                let observe = gauge.with_unit(first.unit).with_callback(move |observer| {
                    let saturated = |value| i64::try_from(value).unwrap_or(i64::MAX);
                    values().for_each(|(value, attributes)| observer.observe(saturated(value), attributes.as_slice()));
                });
                observe.build();
            }
        }
    }

    pub(crate) fn record(&self, duration: DurationMetric, attributes: &Attributes<'_>, time: std::time::Duration) {
        let (histogram, series) = &self.durations[duration as usize];
        series.record(
            attributes,
            |attributes| histogram.bind(&key_values(attributes)),
            |histogram| histogram.record(time.as_secs_f64()),
        );
    }

    pub(crate) fn shutdown(&self) {
        // Fails if the exporter does, which logs it.
        let _ = self.provider.shutdown();
    }
}

fn key_values(attributes: Option<&Attributes<'_>>) -> Vec<KeyValue> {
    let Some(attributes) = attributes else { return vec![KeyValue::new("otel.metric.overflow", true)] };
    let present = attributes.iter().filter_map(|(name, value)| Some(KeyValue::new(*name, (*value)?.to_owned())));
    present.collect()
}
