//! Limits on the resources that a client may use, and counters of unread bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{liveness::PingSchedule, rates::SessionRates, tasks::options::TaskOptions};

/// The limits on the resources that a client may use.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The maximum size of a message in bytes.
    pub(crate) message_bytes: usize,
    /// The maximum number of calls in flight per connection. Further calls are rejected.
    pub(crate) in_flight: usize,
    /// The maximum number of messages in a batch.
    pub(crate) batch_messages: usize,
    /// The number of unread output bytes at which the server stops reading from the client.
    pub(crate) unread_bytes: usize,
    /// The timeout of functions that do not declare their own. `None` means no timeout.
    pub(crate) timeout: Option<Duration>,
    /// How long calls in flight may continue after the connection has ended.
    pub(crate) grace_period: Duration,
    /// The maximum number of items on a page of a list.
    pub(crate) page_size: usize,
    /// How long clients may cache lists and the server's description.
    pub(crate) list_ttl: Duration,
    /// How long a client may take to answer a question.
    pub(crate) answer_timeout: Duration,
    /// When silent clients are pinged. `None` means never.
    pub(crate) pings: Option<PingSchedule>,
    /// How long a client may take between two rounds of a request.
    pub(crate) round_ttl: Duration,
    pub(crate) tasks: TaskOptions,
    pub(crate) rates: SessionRates,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            in_flight: 1024,
            batch_messages: 100,
            unread_bytes: 1 << 20,
            timeout: Some(Duration::from_secs(300)),
            grace_period: Duration::from_secs(5),
            page_size: 1000,
            list_ttl: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(600),
            pings: None,
            round_ttl: Duration::from_secs(3600),
            tasks: TaskOptions::default(),
            rates: SessionRates::default(),
        }
    }
}

/// Counters of the unread bytes in several outboxes: a total, and optionally a part of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    total: Arc<AtomicUsize>,
    part: Option<Arc<AtomicUsize>>,
}

#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP meters several outboxes together"))]
impl Meter {
    /// Returns a meter that also counts towards `part`.
    pub(crate) fn with_part(&self, part: &Arc<AtomicUsize>) -> Self {
        Self { total: Arc::clone(&self.total), part: Some(Arc::clone(part)) }
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: usize) {
        for counter in self.counters() {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn sub(&self, bytes: usize) {
        for counter in self.counters() {
            counter.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> impl Iterator<Item = &AtomicUsize> {
        [Some(&*self.total), self.part.as_deref()].into_iter().flatten()
    }
}
