//! Limits on the resources that a client may use, and counters of unread bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::rates::{MAX_PERIOD, SessionRates};
use crate::model::setters;

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
    /// The silence after which a client is pinged. `None` means never.
    pub(crate) ping_interval: Option<Duration>,
    /// How long a client may take to answer a ping.
    pub(crate) ping_timeout: Duration,
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
            ping_interval: None,
            ping_timeout: Duration::from_secs(60),
            round_ttl: Duration::from_secs(3600),
            tasks: TaskOptions::default(),
            rates: SessionRates::default(),
        }
    }
}

impl Limits {
    /// Returns the ping schedule, or `None` if clients are not pinged.
    pub(super) fn pings(&self) -> Option<PingSchedule> {
        self.ping_interval.map(|interval| PingSchedule::new(interval, self.ping_timeout))
    }
}

/// The options of a server's tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskOptions {
    /// The time to live of a task whose client requests none.
    pub(crate) default_ttl: Duration,
    /// The maximum time to live that a client can request.
    pub(crate) max_ttl: Duration,
    /// The interval at which clients should poll.
    pub(crate) poll_interval: Duration,
    pub(crate) limits: TaskLimits,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(3600),
            max_ttl: Duration::from_secs(24 * 3600),
            poll_interval: Duration::from_secs(1),
            limits: TaskLimits::default(),
        }
    }
}

/// The maximum numbers of tasks that a server keeps, including finished tasks. They have no effect without the feature
/// `tasks`.
///
/// Processes that share a [backend](crate::Server::backend) share the limits.
///
/// ```
/// use mcp_runtime::TaskLimits;
///
/// let limits = TaskLimits::default().total(4096).per_peer(16);
/// assert_eq!(limits.per_peer, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The maximum number of tasks of all clients.
    pub total: usize,
    /// The maximum number of tasks of one principal. Clients without a principal are counted by the network of their
    /// address or, if it is unknown, by their session.
    pub per_peer: usize,
}

impl Default for TaskLimits {
    /// Returns the default limits: 1024 tasks in total and 128 per peer.
    fn default() -> Self {
        Self { total: 1024, per_peer: 128 }
    }
}

impl TaskLimits {
    setters! {
        /// Sets the maximum number of tasks of all clients.
        pub fn total(self, total: usize) { self.total = total }

        /// Sets the maximum number of tasks of one principal, network or session.
        pub fn per_peer(self, per_peer: usize) { self.per_peer = per_peer }
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

/// The shortest time between two pings, or two other periodic messages.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

/// When silent clients are pinged.
#[derive(Debug, Clone, Copy)]
pub(super) struct PingSchedule {
    /// The silence after which a client is pinged.
    pub(super) interval: Duration,
    /// How long the client may take to answer.
    pub(super) limit: Duration,
}

impl PingSchedule {
    pub(super) fn new(interval: Duration, limit: Duration) -> Self {
        Self { interval: interval.clamp(MIN_PERIOD, MAX_PERIOD), limit: limit.clamp(MIN_PERIOD, MAX_PERIOD) }
    }
}
