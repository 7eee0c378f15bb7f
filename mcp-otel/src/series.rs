//! The time series of a histogram.

use std::{collections::HashMap, hash::BuildHasher as _, sync::Arc};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;

use crate::attributes::Attributes;

/// The maximum number of time series of a histogram. Further combinations of attributes share one series, whose label is
/// `otel_metric_overflow`, as in the SDK of OpenTelemetry.
const MAX_SERIES: usize = 2_000;
/// The key of that series.
const OVERFLOW: u64 = 0;

/// The time series of a histogram, by the hash of their attributes, which clients do not choose: SipHash would take most
/// of the time. Reading takes no lock.
#[derive(Debug)]
pub(crate) struct Series<T> {
    hasher: RandomState,
    series: ArcSwap<HashMap<u64, Arc<T>, RandomState>>,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { hasher: RandomState::default(), series: ArcSwap::default() }
    }
}

impl<T> Series<T> {
    /// Records something in the series of these attributes. Without attributes, `new` creates the series that further
    /// combinations share.
    pub(crate) fn record(
        &self,
        attributes: &Attributes<'_>,
        new: impl Fn(Option<&Attributes<'_>>) -> T,
        record: impl FnOnce(&T),
    ) {
        // The values determine the names.
        let key = self.hasher.hash_one(attributes.map(|(_, value)| value));
        {
            let series = self.series.load();
            if let Some(found) = series.get(&key).or_else(|| series.get(&OVERFLOW)) {
                return record(found);
            }
        }
        let mut created = None;
        self.series.rcu(|series| {
            let mut series = HashMap::clone(series);
            let (key, attributes) = if series.len() < MAX_SERIES { (key, Some(attributes)) } else { (OVERFLOW, None) };
            created = Some(Arc::clone(series.entry(key).or_insert_with(|| Arc::new(new(attributes)))));
            series
        });
        if let Some(created) = created {
            record(&created);
        }
    }

    /// Returns all series.
    #[cfg(feature = "prometheus")]
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.series.load().values().cloned().collect()
    }
}
