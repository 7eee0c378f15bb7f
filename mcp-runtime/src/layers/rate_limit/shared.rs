//! Counting the calls of all processes that share a backend: a budget as this process knows it, its arithmetic, and its
//! record.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use lru::LruCache;
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::local::{MAX_PERIOD, Rate};
use crate::{
    backend::{
        Availability, BACKEND_TIMEOUT, Backend, BackendClock, BackendError, CircuitBreaker, Record, RecordCondition,
        RecordVersion, with_timeout,
    },
    engine::Bucket,
    stdx::Mutex,
};

/// The time for which a backend that has failed is not asked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A record lives this much longer than it must, since backends may round its time to live.
const TTL_PRECISION: Duration = Duration::from_millis(1);

/// The maximum number of calls that wait for the backend, for each budget.
const MAX_WAITING: u64 = 1024;

/// The number of attempts to change a record while other processes change it, too.
const MAX_ATTEMPTS: usize = 16;

/// The budgets that this process shares with other processes. Each is a record of the backend, from which the process
/// takes a few calls at a time.
#[derive(Debug)]
pub(super) struct SharedBudgets {
    backend: Arc<dyn Backend>,
    clock: BackendClock,
    rate: Rate,
    budgets: Mutex<Budgets>,
    max_keys: usize,
    breaker: CircuitBreaker,
}

#[derive(Debug)]
struct Budgets {
    by_record: LruCache<String, Arc<Budget>>,
    /// When the records of evicted budgets expire.
    evicted: BinaryHeap<Reverse<u64>>,
}

#[derive(Debug)]
struct Budget {
    /// The key of the record.
    record: String,
    /// Whether there is a record. Otherwise, this process has too many of them.
    is_shared: bool,
    account: Mutex<Account>,
    /// Counts the calls of this process, for times in which the backend does not respond.
    local: Bucket,
}

impl SharedBudgets {
    pub(super) fn new(backend: Arc<dyn Backend>, rate: Rate, max_keys: usize) -> Self {
        Self {
            backend,
            clock: BackendClock::default(),
            rate,
            budgets: Mutex::new(Budgets { by_record: LruCache::unbounded(), evicted: BinaryHeap::new() }),
            max_keys,
            breaker: CircuitBreaker::new(RETRY_AFTER),
        }
    }

    /// Counts a call. `record` is the key of the record of its budget.
    pub(super) async fn check(self: &Arc<Self>, record: String) -> Verdict {
        let budget = self.budget(record);
        let verdict = match self.admit(&budget) {
            Some(Admission::Decided(verdict)) => Some(verdict),
            Some(Admission::Waiting(verdict)) => timeout(BACKEND_TIMEOUT, verdict).await.ok().and_then(Result::ok),
            None => None,
        };
        if let Some(Err(wait)) = verdict {
            return Err(wait);
        }
        // Calls that the shared budget allows count here as well, so that this process never exceeds the rate on its own.
        let counted = self.rate.check(&budget.local);
        verdict.unwrap_or(counted)
    }

    /// Returns `None` if this process decides on its own.
    fn admit(self: &Arc<Self>, budget: &Arc<Budget>) -> Option<Admission> {
        if !budget.is_shared {
            return None;
        }
        let mut account = budget.account.lock();
        if let Some(verdict) = account.decide(self.rate, self.clock.nanos()) {
            return Some(Admission::Decided(verdict));
        }
        let runtime = Handle::try_current().ok()?;
        let admission = match self.breaker.availability() {
            Availability::Up => Some(account.wait(self.rate)),
            // No call waits for a backend that has failed.
            Availability::Retry => None,
            Availability::Down => return None,
        };
        let begins = account.begin_asking();
        // A runtime that is shutting down drops the task at once, which locks the account.
        drop(account);
        if begins {
            runtime.spawn(Arc::clone(self).ask(Asking(Some(Arc::clone(budget)))));
        }
        admission
    }

    fn budget(&self, record: String) -> Arc<Budget> {
        let mut budgets = self.budgets.lock();
        let now = self.clock.nanos();
        while budgets.evicted.peek().is_some_and(|Reverse(expires)| *expires <= now) {
            budgets.evicted.pop();
        }
        let has_room = budgets.evicted.len() < self.max_keys;
        if let Some(budget) = budgets.by_record.get(&record).filter(|budget| budget.is_shared || !has_room) {
            return Arc::clone(budget);
        }
        let local = self.rate.budget();
        let budget = Arc::new(Budget { record: record.clone(), is_shared: has_room, account: Mutex::default(), local });
        budgets.by_record.put(record, Arc::clone(&budget));
        if budgets.by_record.len() > self.max_keys
            && let Some((_, evicted)) = budgets.by_record.pop_lru()
        {
            budgets.evicted.push(Reverse(evicted.account.lock().expires(self.rate, now)));
        }
        budget
    }

    /// Asks the backend for as long as calls wait.
    async fn ask(self: Arc<Self>, mut asking: Asking) {
        let Some(budget) = asking.0.clone() else { return };
        loop {
            let taken = with_timeout(self.take(&budget)).await;
            self.record_availability(taken.as_ref().err());
            if taken.is_err() {
                return;
            }
            if budget.account.lock().has_finished(self.rate, self.clock.nanos()) {
                asking.0 = None;
                return;
            }
        }
    }

    /// Takes a share of the budget.
    async fn take(&self, budget: &Budget) -> Result<(), BackendError> {
        self.clock.update(&*self.backend, 0).await?;
        budget.account.lock().forget_invalid(self.rate, self.clock.nanos());
        for _ in 0..MAX_ATTEMPTS {
            let now = self.clock.nanos();
            let Some(change) = budget.account.lock().plan(self.rate, now) else { return Ok(()) };
            let ttl = Duration::from_nanos(change.full_at - now) + TTL_PRECISION;
            let value = change.full_at.to_string().into_bytes();
            if let Some(version) = self.backend.set(&budget.record, change.condition, value, ttl).await? {
                budget.account.lock().settle(self.rate, &change, version, self.clock.nanos());
                return Ok(());
            }
            let found = self.backend.get(&budget.record).await?;
            let found = found.map(|record| (record.version, decode(&record)));
            if let Some((_, full_at)) = found {
                // The record shows that the backend's clock has passed this time, unless it was set back. The estimate of
                // this process is late if the last response was slow.
                self.clock.update(&*self.backend, self.rate.written_after(full_at)).await?;
            }
            budget.account.lock().learn(found);
        }
        // Other processes use the budget at the same time, so it will soon be exhausted.
        budget.account.lock().give_up(self.rate, self.clock.nanos());
        Ok(())
    }

    /// Records whether the backend has responded. Every error, even `Full`, applies to all budgets, because their records
    /// have the same size.
    fn record_availability(&self, error: Option<&BackendError>) {
        let has_changed = self.breaker.record(error.is_none());
        match error.filter(|_| has_changed) {
            Some(error) => tracing::warn!(%error, "rates are limited for each process separately"),
            None if has_changed => tracing::info!("rates are limited for all processes together again"),
            None => {}
        }
    }
}

/// The budget for which the backend is being asked, if any.
struct Asking(Option<Arc<Budget>>);

/// The backend has failed, or the runtime ends.
impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(budget) = &self.0 {
            budget.account.lock().stop_asking();
        }
    }
}

/// Returns when a budget is full again. A malformed record counts as a full budget and is replaced. Failing instead would
/// make each process count the calls of all budgets on its own.
fn decode(record: &Record) -> u64 {
    let full_at = std::str::from_utf8(&record.value).ok().and_then(|text| text.parse().ok());
    full_at.unwrap_or_else(|| {
        tracing::warn!("replacing the malformed record of a rate limit");
        0
    })
}

/// The number of leases into which a budget is divided. A process that takes a lease and does not use it makes the limit
/// stricter by one such part.
const LEASES: u64 = 32;

/// A budget that processes share is a point in time: the time at which it is full again (the theoretical arrival time
/// of the generic cell rate algorithm). Times are nanoseconds since the Unix epoch.
impl Rate {
    /// Returns the number of calls that a process takes at a time, unless more wait.
    pub(super) fn lease(self) -> u64 {
        (self.burst / LEASES).max(1)
    }

    /// Returns the time in which an empty budget becomes full.
    pub(super) fn period(self) -> u64 {
        self.interval.saturating_mul(self.burst).min(MAX_PERIOD)
    }

    /// Returns the time that calls take from a budget.
    pub(super) fn cost(self, calls: u64) -> u64 {
        self.interval.saturating_mul(calls).min(MAX_PERIOD)
    }

    /// Returns when a budget is full again, for one that is used from now on. A budget that seems to be more than empty,
    /// because the clock was set back, is empty.
    pub(super) fn start(self, full_at: u64, now: u64) -> u64 {
        full_at.clamp(now, now + self.period())
    }

    /// Returns the earliest time at which a process can have written this `full_at`.
    pub(super) fn written_after(self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.period())
    }

    /// Returns the number of calls that a budget allows now.
    pub(super) fn available(self, full_at: u64, now: u64) -> u64 {
        (now + self.period()).saturating_sub(full_at.max(now)) / self.interval
    }

    /// Returns when a budget allows this number of calls.
    pub(super) fn available_at(self, full_at: u64, calls: u64) -> u64 {
        (full_at + self.cost(calls)).saturating_sub(self.period())
    }
}

/// Whether a call is within the rate. Otherwise, the time to wait.
pub(super) type Verdict = Result<(), Duration>;

/// The share of a budget that this process has taken, and the calls that wait for more.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The record as this process has last seen it.
    known: Option<KnownRecord>,
    lease: Lease,
    /// The time before which the backend is not asked again, because the budget was exhausted.
    exhausted_until: u64,
    waiting: VecDeque<oneshot::Sender<Verdict>>,
    /// Whether the backend is being asked.
    is_asking: bool,
}

#[derive(Debug, Clone, Copy)]
struct KnownRecord {
    version: RecordVersion,
    /// When the budget is full again.
    full_at: u64,
}

/// Calls that were taken from the budget and not used.
///
/// Each call that is taken moves the time at which the budget is full by one interval, which is the call's alone. A call
/// must be used before its interval begins: the calls that all processes allow are then the calls that one process with
/// the same budget would have allowed.
#[derive(Debug, Clone, Copy, Default)]
struct Lease {
    calls: u64,
    /// The end of the interval of the last call.
    end: u64,
}

impl Lease {
    fn take(&mut self, rate: Rate, now: u64) -> bool {
        self.calls = self.calls.min(self.end.saturating_sub(now) / rate.interval);
        let is_taken = self.calls > 0;
        self.calls -= u64::from(is_taken);
        is_taken
    }
}

/// The decision about a call.
#[derive(Debug)]
pub(super) enum Admission {
    Decided(Verdict),
    /// The call waits for the backend. If the sender is dropped, the backend has failed.
    Waiting(oneshot::Receiver<Verdict>),
}

/// A change of the record, to take a share of the budget.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) condition: RecordCondition,
    /// When the budget will be full again.
    pub(super) full_at: u64,
    calls: u64,
    /// The number of calls that wait.
    waiting: usize,
}

impl Account {
    /// Admits or rejects a call, if the backend need not be asked for that.
    pub(super) fn decide(&mut self, rate: Rate, now: u64) -> Option<Verdict> {
        if self.lease.take(rate, now) {
            return Some(Ok(()));
        }
        if let Some(known) = self.known
            && self.exhausted_until <= now
            && rate.written_after(known.full_at) <= now
            && rate.available(known.full_at, now) == 0
        {
            self.exhaust(rate, rate.start(known.full_at, now));
        }
        let wait = self.exhausted_until.saturating_sub(now);
        // No wait is longer, unless the clock was set back.
        (1..=rate.period()).contains(&wait).then(|| Err(Duration::from_nanos(wait)))
    }

    /// Lets a call wait for the backend, unless as many wait as the budget can admit at once, or [`MAX_WAITING`].
    pub(super) fn wait(&mut self, rate: Rate) -> Admission {
        if self.waiting.len() as u64 >= rate.burst.min(MAX_WAITING) {
            return Admission::Decided(Err(Duration::from_nanos(rate.interval)));
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(sender);
        Admission::Waiting(receiver)
    }

    /// Returns whether the caller is to ask the backend, because no other call does.
    pub(super) fn begin_asking(&mut self) -> bool {
        !std::mem::replace(&mut self.is_asking, true)
    }

    /// Stops asking the backend. The calls that wait are told that it has failed.
    pub(super) fn stop_asking(&mut self) {
        self.is_asking = false;
        self.waiting.clear();
    }

    /// Stops asking the backend, unless more calls wait than the lease admits. Returns whether it has stopped.
    pub(super) fn has_finished(&mut self, rate: Rate, now: u64) -> bool {
        while !self.waiting.is_empty() && self.lease.take(rate, now) {
            let is_used = self.waiting.pop_front().is_some_and(|call| call.send(Ok(())).is_ok());
            self.lease.calls += u64::from(!is_used);
        }
        self.is_asking = !self.waiting.is_empty();
        !self.is_asking
    }

    /// Forgets a record that has expired, or that lies too far in the future because the clock was set back.
    pub(super) fn forget_invalid(&mut self, rate: Rate, now: u64) {
        self.known = self.known.filter(|known| (rate.written_after(known.full_at)..known.full_at).contains(&now));
    }

    /// Plans to take a lease, or more if more calls wait. Returns `None` if the budget is exhausted, which
    /// rejects the calls that wait.
    pub(super) fn plan(&mut self, rate: Rate, now: u64) -> Option<Change> {
        let start = rate.start(self.known.map_or(0, |known| known.full_at), now);
        let waiting = self.waiting.len();
        let calls = rate.available(start, now).min(rate.lease().max(waiting as u64));
        if calls == 0 {
            self.exhaust(rate, start);
            self.reject(waiting, now);
            return None;
        }
        let condition = self.known.map_or(RecordCondition::Absent, |known| RecordCondition::Version(known.version));
        Some(Change { condition, full_at: start + rate.cost(calls), calls, waiting })
    }

    /// Records what the backend contains.
    pub(super) fn learn(&mut self, found: Option<(RecordVersion, u64)>) {
        self.known = found.map(|(version, full_at)| KnownRecord { version, full_at });
    }

    /// Admits the calls that wait, after a change was made. The calls of the change that remain become the lease.
    /// Rejects the calls for which the budget did not suffice.
    pub(super) fn settle(&mut self, rate: Rate, change: &Change, version: RecordVersion, now: u64) {
        self.known = Some(KnownRecord { version, full_at: change.full_at });
        let (mut calls, mut waiting) = (change.calls, change.waiting);
        while calls > 0
            && waiting > 0
            && let Some(call) = self.waiting.pop_front()
        {
            // A call that was cancelled uses nothing.
            calls -= u64::from(call.send(Ok(())).is_ok());
            waiting -= 1;
        }
        self.lease = Lease { calls, end: change.full_at };
        if waiting > 0 {
            self.exhaust(rate, change.full_at);
            self.reject(waiting, now);
        }
    }

    /// Rejects all calls that wait, because other processes use the budget at the same time.
    pub(super) fn give_up(&mut self, rate: Rate, now: u64) {
        self.exhausted_until = now + rate.cost(rate.lease());
        self.reject(self.waiting.len(), now);
    }

    /// Returns the time after which the record has expired, as far as this process knows.
    pub(super) fn expires(&self, rate: Rate, now: u64) -> u64 {
        let asked = if self.is_asking { now + rate.period() } else { 0 };
        self.known.map_or(0, |known| rate.start(known.full_at, now)).max(asked)
    }

    /// The next time to ask is when the budget allows a whole lease, so that a flood of calls causes few requests.
    fn exhaust(&mut self, rate: Rate, full_at: u64) {
        self.exhausted_until = rate.available_at(full_at, rate.lease());
    }

    fn reject(&mut self, calls: usize, now: u64) {
        let wait = Duration::from_nanos(self.exhausted_until.saturating_sub(now));
        for call in self.waiting.drain(..calls) {
            let _ = call.send(Err(wait));
        }
    }
}
