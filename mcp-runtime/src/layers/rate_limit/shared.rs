//! Counting the calls of all processes that share a backend.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Duration};

use lru::LruCache;
use tokio::{runtime::Handle, time::timeout};

use super::{
    account::{Account, Admission, Rate, Verdict},
    local::{Quota, Uptime},
};
use crate::{
    backend::{
        Availability, BACKEND_TIMEOUT, Backend, BackendClock, BackendError, CircuitBreaker, Record, with_timeout,
    },
    engine::Bucket,
    mutex::Mutex,
};

/// The time for which a backend that has failed is not asked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A record lives this much longer than it must, since backends may round its time to live.
const TTL_PRECISION: Duration = Duration::from_millis(1);

/// The number of attempts to change a record while other processes change it, too.
const MAX_ATTEMPTS: usize = 16;

/// The budgets that this process shares with other processes. Each is a record of the backend, from which the process
/// takes a few calls at a time.
#[derive(Debug)]
pub(super) struct SharedBudgets {
    backend: Arc<dyn Backend>,
    clock: BackendClock,
    quota: Quota,
    rate: Rate,
    budgets: Mutex<Budgets>,
    max_keys: usize,
    breaker: CircuitBreaker,
    uptime: Uptime,
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
    pub(super) fn new(backend: Arc<dyn Backend>, quota: Quota, max_keys: usize, uptime: Uptime) -> Self {
        Self {
            backend,
            clock: BackendClock::default(),
            quota,
            rate: Rate::new(quota),
            budgets: Mutex::new(Budgets { by_record: LruCache::unbounded(), evicted: BinaryHeap::new() }),
            max_keys,
            breaker: CircuitBreaker::new(RETRY_AFTER),
            uptime,
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
        let counted = self.uptime.check(&budget.local);
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
        let local = self.quota.budget();
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

impl Budget {}

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
