//! The calls that several processes allow together, with a paused clock.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, advance, sleep};

use super::{
    local::Rate,
    shared::{Account, Admission, SharedBudgets},
};
use crate::{
    backend::{BackendError, BackendFuture, RecordCondition, RecordVersion, Records as _},
    testing::test_backend::{BackendHook, BackendMethod, BackendOperation, TestBackend},
};

const PROCESSES: usize = 3;

/// Makes responses with the time slow, or all operations fail or hang, or lets another process write each record first.
#[derive(Debug, Default)]
struct Trouble {
    slows_time: AtomicBool,
    fails: AtomicBool,
    hangs: AtomicBool,
    rival: OnceLock<Arc<TestBackend<Trouble>>>,
}

impl BackendHook for Trouble {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        let is_slow = operation.method == BackendMethod::Now && self.slows_time.load(Ordering::Relaxed);
        let (fails, hangs) = (self.fails.load(Ordering::Relaxed), self.hangs.load(Ordering::Relaxed));
        let rival = self.rival.get().filter(|_| operation.method == BackendMethod::Set);
        let rival = rival.map(|rival| (rival, operation.key.to_owned()));
        Box::pin(async move {
            if let Some((rival, key)) = rival {
                sleep(Duration::from_millis(1)).await;
                rival.set(&key, RecordCondition::Always, b"0".to_vec(), Duration::from_secs(3600)).await?;
            }
            if hangs {
                std::future::pending::<()>().await;
            }
            if fails {
                return Err(BackendError::Unavailable("test".to_owned()));
            }
            let result = run.await;
            if is_slow {
                sleep(Duration::from_millis(1500)).await;
            }
            result
        })
    }
}

struct Service {
    backend: Arc<TestBackend<Trouble>>,
    processes: Vec<Arc<SharedBudgets>>,
    rate: Rate,
}

impl Service {
    fn new(interval: Duration, burst: u32) -> Self {
        let backend = Arc::new(TestBackend::new(Trouble::default()));
        let mut service = Self { backend, processes: Vec::new(), rate: Rate::new(interval, burst) };
        for _ in 0..PROCESSES {
            service.start(10_000);
        }
        service
    }

    /// Starts a process. Returns its connection to the backend.
    fn start(&mut self, max_keys: usize) -> Arc<TestBackend<Trouble>> {
        let backend = Arc::new(self.backend.other_process());
        let budgets = SharedBudgets::new(Arc::clone(&backend) as _, self.rate, max_keys);
        self.processes.push(Arc::new(budgets));
        backend
    }

    async fn call(&self, process: usize, key: &str) -> bool {
        self.processes[process].check(format!("rates:{key}")).await.is_ok()
    }

    /// Returns how many of some calls at a process pass.
    async fn passing(&self, process: usize, calls: usize) -> usize {
        let mut passing = 0;
        for _ in 0..calls {
            passing += usize::from(self.call(process, "").await);
        }
        passing
    }
}

/// The calls that one process would allow: the generic cell rate algorithm.
struct Reference {
    interval: Duration,
    burst: u32,
    full_at: Instant,
}

impl Reference {
    fn allows(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let allows = full_at <= now + self.interval * self.burst;
        if allows {
            self.full_at = full_at;
        }
        allows
    }
}

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test(start_paused = true)]
async fn several_processes_never_allow_more_than_one_would() {
    for (burst, seed) in (0..24).map(|seed| ([1, 2, 5, 40, 320, 1000][seed % 6], seed as u64)) {
        let interval = Duration::from_millis(10);
        let service = Service::new(interval, burst);
        let mut reference = Reference { interval, burst, full_at: Instant::now() };
        let mut numbers = Numbers(seed);
        // Idle times between floods, in which unused shares expire, and budgets become full.
        for _ in 0..30 {
            let pause = numbers.below(2 * u64::from(burst) + 4);
            for _ in 0..numbers.below(2 * u64::from(burst)) {
                advance(Duration::from_millis(numbers.below(4))).await;
                let process = numbers.below(PROCESSES as u64) as usize;
                if service.call(process, "").await {
                    assert!(reference.allows(Instant::now()), "burst {burst}, seed {seed}: too many calls");
                }
            }
            advance(Duration::from_millis(10 * pause)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_load_processes_allow_the_whole_rate() {
    for burst in [1, 10, 320] {
        let service = Service::new(Duration::from_millis(10), burst);
        let mut passing = 0;
        for round in 0..10_000 {
            advance(Duration::from_millis(1)).await;
            for process in 0..PROCESSES {
                passing += service.passing((process + round) % PROCESSES, 2).await;
            }
        }
        let allowed = 1000 + burst as usize;
        // Some leases may not be used yet.
        assert!(
            (allowed - PROCESSES * (burst as usize / 32) - 1..=allowed).contains(&passing),
            "burst {burst}: {passing}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_that_is_not_used_expires() {
    let service = Service::new(Duration::from_secs(1), 320);
    assert_eq!(service.passing(0, 1).await, 1);
    // The first process has taken nine more calls, which it may use at any time before other processes could have
    // replaced them.
    assert_eq!(service.passing(1, 400).await, 310);
    assert_eq!(service.passing(0, 400).await, 9);
    advance(Duration::from_secs(320)).await;
    assert_eq!(service.passing(0, 1).await, 1);
    advance(Duration::from_secs(320)).await;
    assert_eq!(service.passing(1, 400).await, 320, "the budget is full again");
    assert_eq!(service.passing(0, 400).await, 0, "the share of the first process has expired");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_refill_a_budget() {
    let mut service = Service::new(Duration::from_secs(1), 100);
    assert_eq!(service.passing(0, 200).await, 100);
    service.start(10);
    assert_eq!(service.passing(PROCESSES, 200).await, 0);
    advance(Duration::from_secs(50)).await;
    service.start(10);
    assert_eq!(service.passing(PROCESSES + 1, 200).await, 50);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_records_is_bounded_and_evicted_budgets_are_kept() {
    let mut service = Service::new(Duration::from_secs(1), 100);
    service.start(10);
    let last = PROCESSES;
    for _ in 0..150 {
        service.call(last, "first").await;
    }
    for key in 0..100 {
        assert!(service.call(last, &key.to_string()).await);
        assert!(service.backend.count("rates").await.unwrap() <= 20);
    }
    for _ in 0..100 {
        assert!(service.call(last, "first").await, "this process counts on its own, since it has too many records");
    }
    assert!(!service.call(last, "first").await, "it does count");
    assert!(!service.call(0, "first").await, "others do not");
    advance(Duration::from_secs(101)).await;
    assert_eq!(service.backend.count("rates").await, Ok(0));
    // The records that have expired do not count, so the process shares budgets again, both new budgets and the budgets
    // that it has.
    for key in 90..110 {
        let key = key.to_string();
        for _ in 0..100 {
            assert!(service.call(0, &key).await);
        }
        assert!(!service.call(last, &key).await, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_has_learnt_the_time_late_gets_its_share() {
    let mut service = Service::new(Duration::from_millis(10), 100);
    let slow = service.start(10_000);
    slow.slows_time.store(true, Ordering::Relaxed);
    assert!(service.call(PROCESSES, "").await);
    slow.slows_time.store(false, Ordering::Relaxed);
    let (calls, mut passing) = (slow.operations(), [0; 2]);
    for round in 0..1000 {
        advance(Duration::from_millis(10)).await;
        for index in [round % 2, (round + 1) % 2] {
            passing[index] += service.passing([0, PROCESSES][index], 5).await;
        }
    }
    assert!(passing.iter().all(|passing| *passing > 300), "{passing:?} of about 1100");
    assert!(slow.operations() - calls < 3000, "{} operations", slow.operations() - calls);
}

/// While the backend fails or hangs, calls are counted by their process at once, and one attempt after another finds out
/// whether it works again.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_one_attempt_at_most_while_the_backend_fails() {
    for hangs in [false, true] {
        let mut service = Service::new(Duration::from_millis(10), 100);
        let backend = service.start(10_000);
        let budgets = Arc::clone(&service.processes[PROCESSES]);
        let trouble = if hangs { &backend.hangs } else { &backend.fails };
        trouble.store(true, Ordering::Relaxed);
        let began = Instant::now();
        // The calls wait for the same attempt, whenever they come.
        let call = |after: u64| {
            let budgets = Arc::clone(&budgets);
            async move {
                sleep(Duration::from_millis(after)).await;
                let is_admitted = budgets.check("rates:shared".to_owned()).await.is_ok();
                (is_admitted, Instant::now() - began)
            }
        };
        let (one, other, last) = tokio::join!(call(0), call(1200), call(1900));
        let longest = Duration::from_millis(if hangs { 2050 } else { 1950 });
        for (is_admitted, elapsed) in [one, other, last] {
            assert!(is_admitted && elapsed <= longest, "{hangs}: {elapsed:?}");
        }
        for _ in 0..3 {
            advance(Duration::from_secs(6)).await;
            let (began, operations) = (Instant::now(), backend.operations());
            for key in 0..50 {
                assert!(service.call(PROCESSES, &key.to_string()).await);
                tokio::task::yield_now().await;
            }
            assert!(began.elapsed() < Duration::from_millis(100), "{hangs}: {:?}", began.elapsed());
            assert!(backend.operations() - operations <= 2, "{hangs}: {}", backend.operations() - operations);
            advance(Duration::from_secs(3)).await;
        }
    }
}

/// A process never exceeds the rate on its own.
#[tokio::test(start_paused = true)]
async fn calls_before_a_failure_of_the_backend_count() {
    let mut service = Service::new(Duration::from_secs(1), 100);
    let backend = service.start(10_000);
    assert_eq!(service.passing(PROCESSES, 60).await, 60);
    backend.fails.store(true, Ordering::Relaxed);
    assert_eq!(service.passing(PROCESSES, 60).await, 40);
}

/// Whenever a process tries to take a share, another one has just changed the record.
#[tokio::test(start_paused = true)]
async fn a_call_is_rejected_if_the_record_changes_too_often() {
    let mut service = Service::new(Duration::from_secs(1), 100);
    let backend = service.start(10_000);
    backend.rival.set(Arc::new(backend.other_process())).unwrap();
    assert!(!service.call(PROCESSES, "").await);
}

/// Calls that wait for the backend are told when a share is available, if the budget does not suffice for them or if the
/// record changes too often.
#[test]
fn calls_that_get_no_share_are_told_how_long_to_wait() {
    let second = Duration::from_secs(1);
    let (rate, now) = (Rate::new(second, 3), 1_000_000_000_000);
    for (left, expected) in [(Some(1), [Ok(()), Err(second), Err(second)]), (None, [Err(second); 3])] {
        let mut account = Account::default();
        let waiting = [(); 3].map(|()| match account.wait(rate) {
            Admission::Waiting(verdict) => verdict,
            Admission::Decided(verdict) => panic!("{verdict:?}"),
        });
        match left {
            Some(left) => {
                account.learn(Some((RecordVersion::new(1), now + rate.cost(rate.burst - left))));
                let change = account.plan(rate, now).unwrap();
                account.settle(rate, &change, RecordVersion::new(2), now);
            }
            None => account.give_up(rate, now),
        }
        assert_eq!(waiting.map(|mut verdict| verdict.try_recv()), expected.map(Ok), "{left:?}");
        assert_eq!(account.decide(rate, now), Some(Err(second)), "{left:?}");
    }
}

/// A call beyond the burst would get no share. Memory bounds the number of others.
#[test]
fn a_limited_number_of_calls_waits_for_the_backend() {
    for (burst, expected) in [(3, 3), (100_000, 1024)] {
        let rate = Rate::new(Duration::from_secs(1), burst);
        let mut account = Account::default();
        let waiting = (0..2000).map_while(|_| match account.wait(rate) {
            Admission::Waiting(verdict) => Some(verdict),
            Admission::Decided(_) => None,
        });
        assert_eq!(waiting.collect::<Vec<_>>().len(), expected, "{burst}");
    }
}

/// While the backend is asked, it may write a record that is full a period later.
#[test]
fn a_budget_expires_with_its_record() {
    let rate = Rate::new(Duration::from_secs(1), 3);
    let now = 1_000_000_000_000;
    for (known, asks, expected) in
        [(None, false, None), (Some(1), false, Some(1)), (None, true, Some(3)), (Some(1), true, Some(3))]
    {
        let mut account = Account::default();
        account.learn(known.map(|calls| (RecordVersion::new(1), now + rate.cost(calls))));
        assert!(!asks || account.begin_asking());
        let expected = expected.map_or(0, |calls| now + rate.cost(calls));
        assert_eq!(account.expires(rate, now), expected, "{known:?} {asks}");
    }
}

#[test]
fn a_budget_from_the_future_is_read_again() {
    let (rate, mut account) = (Rate::new(Duration::from_millis(10), 100), Account::default());
    let now = 3_600_000_000_000;
    // The clock of the backend was set back since.
    account.learn(Some((RecordVersion::new(1), now + 3 * rate.period())));
    assert!(account.decide(rate, now).is_none(), "rejected without reading the record");
    account.forget_invalid(rate, now);
    assert_eq!(account.plan(rate, now).unwrap().condition, RecordCondition::Absent);

    let mut account = Account::default();
    account.give_up(rate, now + 3 * rate.period());
    assert!(account.decide(rate, now).is_none(), "rejected for longer than a period");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_replaced_and_concerns_no_other_budget() {
    let service = Service::new(Duration::from_secs(1), 100);
    let hour = Duration::from_secs(3600);
    service.backend.set("rates:malformed", RecordCondition::Absent, b"x".to_vec(), hour).await.unwrap().unwrap();
    for _ in 0..100 {
        assert!(service.call(0, "used up").await);
    }
    for _ in 0..100 {
        assert!(service.call(1, "malformed").await);
    }
    assert!(!service.call(2, "malformed").await, "the record was not replaced");
    assert!(!service.call(1, "used up").await, "another budget is not shared");
}

/// Calls wait for a share of the budget, and some are cancelled meanwhile. The other calls and the calls that follow
/// use exactly the share.
#[test]
fn calls_that_were_cancelled_while_they_waited_use_nothing() {
    for seed in 0..500 {
        let mut numbers = Numbers(seed);
        let burst = [1, 3, 40, 320][seed as usize % 4];
        let rate = Rate::new(Duration::from_secs(1), burst);
        let (mut account, now) = (Account::default(), 1_000_000_000_000);
        let mut wait = |account: &mut Account| match account.wait(rate) {
            Admission::Waiting(verdict) => (numbers.below(2) == 0).then_some(verdict),
            Admission::Decided(verdict) => panic!("{verdict:?}"),
        };
        let mut waiting: Vec<_> = (0..1 + seed % u64::from(burst)).filter_map(|_| wait(&mut account)).collect();
        let change = account.plan(rate, now).unwrap();
        // More calls come while the backend is asked.
        let room = u64::from(burst) - 1 - seed % u64::from(burst);
        waiting.extend((0..room.min(2)).filter_map(|_| wait(&mut account)));
        account.settle(rate, &change, RecordVersion::new(1), now);
        let taken = change.full_at.saturating_sub(now) / rate.interval;
        account.has_finished(rate, now);
        let admitted = waiting.iter_mut().map(|verdict| u64::from(verdict.try_recv() == Ok(Ok(())))).sum::<u64>();
        let mut following = 0;
        while account.decide(rate, now) == Some(Ok(())) {
            following += 1;
        }
        assert!(admitted == waiting.len() as u64 || admitted == taken, "seed {seed}: {admitted} of {taken}");
        assert_eq!(admitted + following, taken, "seed {seed}: a cancelled call has used up its share");
    }
}

#[test]
fn the_default_number_of_keys_is_that_of_the_documentation() {
    assert_eq!(super::RateLimit::new(1, Duration::from_secs(1)).max_keys, 10_000);
}
