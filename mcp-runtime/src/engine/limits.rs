//! The limits on the resources that a client may use, and on the rates at which it may send and receive messages.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    backend::time::nanos,
    counters::Counter,
    error::Fault,
    model::Level,
    stdx::{Mutex, setters},
};

/// The longest period, so that sums of instants and periods do not overflow.
pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest time between two pings, or two other periodic messages.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

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
    /// The time to live of a task whose client requests none.
    pub(crate) task_ttl: Duration,
    /// The maximum time to live of a task that a client can request.
    pub(crate) max_task_ttl: Duration,
    /// The interval at which clients should poll their tasks.
    pub(crate) task_poll_interval: Duration,
    pub(crate) max_tasks: TaskLimits,
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
            task_ttl: Duration::from_secs(3600),
            max_task_ttl: Duration::from_secs(24 * 3600),
            task_poll_interval: Duration::from_secs(1),
            max_tasks: TaskLimits::default(),
            rates: SessionRates::default(),
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

/// The maximum rate of a kind of message.
///
/// A burst may use the whole rate at once. After that, the budget is replenished evenly.
///
/// ```
/// # use std::time::Duration;
/// # use mcp_runtime::layers::Rate;
/// // At most 50 messages at once, and 5 per second on average.
/// let rate = Rate::new(50, Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    messages: u32,
    per: Duration,
}

impl Rate {
    /// Allows `messages` messages in each period `per`. At least one message is allowed.
    ///
    /// The period is at most a year.
    pub const fn new(messages: u32, per: Duration) -> Self {
        let per = if per.as_secs() < MAX_PERIOD.as_secs() { per } else { MAX_PERIOD };
        Self { messages: if messages == 0 { 1 } else { messages }, per }
    }

    /// Returns the period in which the budget of one message is replenished.
    fn interval(self) -> Duration {
        self.per / self.messages
    }
}

/// The maximum rates of a session or a peer, set with [`Server::session_rates`](crate::Server::session_rates).
///
/// | messages | default | beyond the rate |
/// | --- | --- | --- |
/// | log messages | 10,000 in 10 seconds | dropped, with a warning in the server's own log |
/// | `completion/complete` requests | 1,000 in 10 seconds | rejected |
/// | `tasks/…` requests | 1,000 in 10 seconds | rejected |
///
/// The rates apply to each session separately. Over HTTP, requests of protocol version 2026-07-28 have no session: the
/// rate of log messages applies to each request, and the rates of requests apply to each
/// [principal](crate::Caller::principal) or, without one, to each network address (for IPv6, each /64 network), which
/// behind a proxy is the proxy's unless `HttpOptions::trusted_proxies` names it. The rate of tool calls has no default; the
/// layer `RateLimit` (feature `rate-limit`) limits it. The progress notifications of a call are at least 10
/// milliseconds apart.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{Server, SessionRates, layers::Rate};
///
/// let rates = SessionRates::default().completions(Rate::new(20, Duration::from_secs(1))).log_messages(None);
/// let server = Server::empty("search", "1.0.0").session_rates(rates);
/// ```
#[derive(Debug, Clone)]
pub struct SessionRates {
    log_messages: Option<Rate>,
    completions: Option<Rate>,
    task_requests: Option<Rate>,
}

impl Default for SessionRates {
    fn default() -> Self {
        let requests = Rate::new(1_000, Duration::from_secs(10));
        Self {
            log_messages: Some(Rate::new(10_000, Duration::from_secs(10))),
            completions: Some(requests),
            task_requests: Some(requests),
        }
    }
}

impl SessionRates {
    setters! {
        /// Sets the rate of log messages, or removes it with `None`.
        ///
        /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
        pub fn log_messages(self, rate: impl Into<Option<Rate>>) { self.log_messages = rate.into() }

        /// Sets the rate of `completion/complete` requests, or removes it with `None`.
        ///
        /// See [Completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion).
        pub fn completions(self, rate: impl Into<Option<Rate>>) { self.completions = rate.into() }

        /// Sets the rate of requests about tasks, or removes it with `None`.
        ///
        /// See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks).
        pub fn task_requests(self, rate: impl Into<Option<Rate>>) { self.task_requests = rate.into() }
    }
}

/// The log level of a session, and the budgets of its rates.
#[derive(Debug)]
pub(crate) struct FlowControl {
    level: AtomicU8,
    log_messages: Bucket,
    completions: Bucket,
    task_requests: Bucket,
}

impl FlowControl {
    /// The log level until the client sets another one.
    pub(crate) const INITIAL_LEVEL: Level = Level::Info;

    pub(crate) fn new(rates: &SessionRates) -> Self {
        Self {
            level: AtomicU8::new(Self::INITIAL_LEVEL as u8),
            log_messages: Bucket::of(rates.log_messages),
            completions: Bucket::of(rates.completions),
            task_requests: Bucket::of(rates.task_requests),
        }
    }

    /// Sets the log level.
    pub(crate) fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Release);
    }

    /// Returns the log level.
    pub(crate) fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Acquire)).min(Level::ALL.len() - 1)]
    }

    /// Counts a log message. Returns `false` if it exceeds the rate.
    pub(crate) fn admits_log_message(&self) -> bool {
        let Err(excess) = self.log_messages.admit(Instant::now()) else { return true };
        if excess.is_first {
            tracing::warn!("dropping log messages: their rate exceeds the limit of the session");
        }
        false
    }

    /// Counts a `completion/complete` request.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the request exceeds the rate.
    pub(crate) fn admit_completion(&self, now: Instant) -> Result<(), Fault> {
        self.completions.admit(now).map_err(|excess| excess.fault("completion requests"))
    }

    /// Counts a request about tasks.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the request exceeds the rate.
    pub(crate) fn admit_task_request(&self, now: Instant) -> Result<(), Fault> {
        self.task_requests.admit(now).map_err(|excess| excess.fault("requests about tasks"))
    }
}

/// The maximum number of peers whose budgets are kept.
const MAX_PEERS: usize = 10_000;

/// The budgets of peers whose requests have no session.
///
/// When there are too many, budgets that are full again are dropped and, if more than half of all remain, all of them:
/// no peer is rejected for the excess of another, and the cost of dropping them is spread over thousands of new peers.
#[derive(Debug, Default)]
pub(crate) struct PeerRates {
    /// By the hash of the peer's key, so that all entries have the same size. The hash cannot be predicted.
    budgets: Mutex<HashMap<u64, Arc<FlowControl>>>,
    hasher: RandomState,
}

impl PeerRates {
    /// Returns the budgets of a peer.
    pub(crate) fn of(&self, peer: &str, rates: &SessionRates, now: Instant) -> Arc<FlowControl> {
        let mut budgets = self.budgets.lock();
        let key = self.hasher.hash_one(peer);
        if budgets.len() >= MAX_PEERS && !budgets.contains_key(&key) {
            budgets.retain(|_, flow| !(flow.completions.is_full(now) && flow.task_requests.is_full(now)));
            if budgets.len() > MAX_PEERS / 2 {
                budgets.clear();
            }
        }
        Arc::clone(budgets.entry(key).or_insert_with(|| Arc::new(FlowControl::new(rates))))
    }
}

/// The budget of a rate, tracked with the virtual scheduling algorithm of ITU-T I.371.
///
/// Times are nanoseconds, since every session and every request has three budgets.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The period in which the budget of one message is replenished. 0 without a rate.
    interval: u64,
    /// The period in which the whole budget is replenished.
    per: u64,
    /// The time, since any point in the past, at which the budget is full again, times two, plus one if the last message exceeded the
    /// rate.
    state: AtomicU64,
}

/// A time before all others. Half of the nanoseconds that a budget counts are 292 years.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn since_start(now: Instant) -> u64 {
    nanos(now.saturating_duration_since(*START))
}

/// A message that exceeds its rate.
pub(crate) struct Excess {
    /// Whether the previous message did not.
    is_first: bool,
    /// The time until there is budget for another message.
    pub(crate) wait: Duration,
}

impl Excess {
    fn fault(&self, messages: &str) -> Fault {
        let wait = Duration::from_millis(self.wait.as_millis() as u64 + 1);
        Fault::refused(Counter::RefusedRate, format!("too many {messages}: retry in {wait:?}"))
    }
}

impl Bucket {
    /// Creates a budget that is replenished by one message in each `interval`, and wholly in `per`.
    pub(crate) fn new(interval: Duration, per: Duration) -> Self {
        Self { interval: nanos(interval), per: nanos(per), state: AtomicU64::new(0) }
    }

    fn of(rate: Option<Rate>) -> Self {
        LazyLock::force(&START);
        rate.map_or(Self::new(Duration::ZERO, Duration::ZERO), |rate| Self::new(rate.interval(), rate.per))
    }

    /// Returns whether nothing of the budget is used.
    fn is_full(&self, now: Instant) -> bool {
        self.state.load(Ordering::Relaxed) >> 1 <= since_start(now)
    }

    fn admit(&self, now: Instant) -> Result<(), Excess> {
        if self.interval == 0 { Ok(()) } else { self.admit_at(since_start(now)) }
    }

    /// Counts a message.
    ///
    /// # Errors
    ///
    /// Returns the excess if it exceeds the rate.
    pub(crate) fn admit_at(&self, now: u64) -> Result<(), Excess> {
        let mut admitted = Ok(());
        // Always succeeds.
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            let full_at = (state >> 1).max(now) + self.interval;
            let wait = (full_at - now).saturating_sub(self.per);
            let (next, outcome) = if wait == 0 {
                (full_at << 1, Ok(()))
            } else {
                (state | 1, Err(Excess { is_first: state & 1 == 0, wait: Duration::from_nanos(wait) }))
            };
            admitted = outcome;
            Some(next)
        });
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_may_use_the_whole_rate_and_is_replenished_evenly() {
        let bucket = Bucket::of(Some(Rate::new(4, Duration::from_secs(2))));
        let start = Instant::now();
        for (millis, admitted) in [
            (0, true),
            (0, true),
            (0, true),
            (0, true),
            (0, false),
            (499, false),
            (500, true),
            (500, false),
            (1500, true),
            (1500, true),
            (1500, false),
            (60_000, true),
            (60_000, true),
            (60_000, true),
            (60_000, true),
            (60_000, false),
        ] {
            let now = start + Duration::from_millis(millis);
            assert_eq!(bucket.admit(now).is_ok(), admitted, "after {millis} ms");
        }
    }

    #[test]
    fn a_budget_is_full_as_soon_as_its_last_message_is_replenished() {
        let bucket = Bucket::of(Some(Rate::new(1, Duration::from_secs(1))));
        let now = Instant::now();
        assert!(bucket.is_full(now) && bucket.admit(now).is_ok());
        let full_at = now + Duration::from_secs(1);
        assert!(!bucket.is_full(full_at - Duration::from_nanos(1)) && bucket.is_full(full_at));
    }

    #[test]
    fn only_the_first_message_in_excess_is_reported() {
        let bucket = Bucket::of(Some(Rate::new(1, Duration::from_secs(1))));
        let start = Instant::now();
        let first = |millis| bucket.admit(start + Duration::from_millis(millis)).map_err(|excess| excess.is_first);
        assert_eq!([first(0), first(1), first(2)], [Ok(()), Err(true), Err(false)]);
        assert_eq!([first(1001), first(1002)], [Ok(()), Err(true)]);
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let flow = FlowControl::new(&SessionRates::default());
        let now = Instant::now();
        for (bucket, messages) in
            [(&flow.log_messages, 10_000), (&flow.completions, 1_000), (&flow.task_requests, 1_000)]
        {
            assert_eq!((0..=messages).filter(|_| bucket.admit(now).is_ok()).count(), messages);
            assert!(bucket.admit(now + Duration::from_secs(10) / messages as u32).is_ok(), "in 10 seconds");
        }
    }

    #[test]
    fn the_default_limits_are_those_of_the_documentation() {
        let limits = Limits::default();
        assert_eq!((limits.message_bytes, limits.in_flight, limits.page_size), (16 << 20, 1024, 1000));
        assert_eq!((limits.timeout, limits.ping_interval), (Some(Duration::from_secs(300)), None));
        let Limits { grace_period, list_ttl, answer_timeout, ping_timeout, round_ttl, .. } = limits;
        let periods = [grace_period, list_ttl, answer_timeout, ping_timeout, round_ttl];
        assert_eq!(periods.map(|period| period.as_secs()), [5, 60, 600, 60, 3600]);
        let periods = [limits.task_ttl, limits.max_task_ttl, limits.task_poll_interval];
        assert_eq!(periods.map(|period| period.as_secs()), [3600, 24 * 3600, 1]);
        assert_eq!(limits.max_tasks, TaskLimits { total: 1024, per_peer: 128 });
    }

    #[test]
    fn the_stated_wait_is_long_enough() {
        for (micros, stated) in [(400, "1ms"), (1500, "2ms")] {
            let fault = Excess { is_first: true, wait: Duration::from_micros(micros) }.fault("messages").to_string();
            assert!(fault.ends_with(&format!("too many messages: retry in {stated}")), "{fault}");
        }
    }

    #[test]
    fn a_rate_allows_at_least_one_message() {
        for rate in [Rate::new(0, Duration::from_secs(1)), Rate::new(1, Duration::MAX), Rate::new(1, Duration::ZERO)] {
            assert!(Bucket::of(Some(rate)).admit(Instant::now()).is_ok(), "{rate:?}");
        }
    }

    #[test]
    fn the_number_of_peers_is_bounded_and_budgets_in_use_are_kept() {
        let (peers, start) = (PeerRates::default(), Instant::now());
        let rates = SessionRates::default().completions(Rate::new(1, Duration::from_secs(10)));
        let admits = |peer: &str, now| peers.of(peer, &rates, now).admit_completion(now).is_ok();
        let count = || peers.budgets.lock().len();
        for number in 0..MAX_PEERS - 1 {
            assert!(admits(&number.to_string(), start), "{number}");
        }
        // Their budgets are full again, and that of `busy` is not.
        let later = start + Duration::from_secs(11);
        assert!(admits("busy", later) && !admits("busy", later));
        assert_eq!(count(), MAX_PEERS);
        assert!(admits("new", later) && !admits("new", later) && !admits("busy", later));
        assert_eq!(count(), 2);
        // With too many budgets in use, all start again.
        for number in 0..3 * MAX_PEERS {
            assert!(admits(&number.to_string(), later), "{number}");
            assert!(count() <= MAX_PEERS);
        }
    }

    #[test]
    fn budgets_in_use_are_kept_if_they_are_at_most_half() {
        for (in_use, kept) in [(MAX_PEERS / 2, MAX_PEERS / 2), (MAX_PEERS / 2 + 1, 0)] {
            let (peers, start) = (PeerRates::default(), Instant::now());
            let rates = SessionRates::default().completions(Rate::new(1, Duration::from_secs(10)));
            let later = start + Duration::from_secs(11);
            for number in 0..MAX_PEERS {
                let now = if number < in_use { later } else { start };
                assert!(peers.of(&number.to_string(), &rates, now).admit_completion(now).is_ok(), "{number}");
            }
            peers.of("new", &rates, later);
            assert_eq!(peers.budgets.lock().len(), kept + 1, "{in_use}");
        }
    }

    /// A peer that has used up one of its rates is not forgotten with the peers that have used none.
    #[test]
    fn every_budget_in_use_is_kept() {
        let rate = Rate::new(1, Duration::from_secs(10));
        let rates = SessionRates::default().completions(rate).task_requests(rate);
        for admit in [FlowControl::admit_completion, FlowControl::admit_task_request] {
            let (peers, start) = (PeerRates::default(), Instant::now());
            let admits = |peer: &str, now| admit(&peers.of(peer, &rates, now), now).is_ok();
            for number in 1..MAX_PEERS {
                assert!(admits(&number.to_string(), start), "{number}");
            }
            let later = start + Duration::from_secs(11);
            assert!(admits("busy", later) && admits("new", later));
            assert_eq!(peers.budgets.lock().len(), 2);
            assert!(!admits("busy", later) && !admits("new", later));
        }
    }

    /// Only a new peer needs room for its budgets.
    #[test]
    fn a_known_peer_forgets_no_budgets() {
        let (peers, now) = (PeerRates::default(), Instant::now());
        let rates = SessionRates::default().completions(Rate::new(1, Duration::from_secs(10)));
        let admits = |peer: usize| peers.of(&peer.to_string(), &rates, now).admit_completion(now).is_ok();
        for number in 0..MAX_PEERS {
            assert!(admits(number), "{number}");
        }
        assert!(!admits(0));
        assert_eq!(peers.budgets.lock().len(), MAX_PEERS);
    }

    #[test]
    fn without_a_rate_everything_is_admitted() {
        let (bucket, now) = (Bucket::of(None), Instant::now());
        assert!((0..100_000).all(|_| bucket.admit(now).is_ok()));
    }
}
