//! Everything that a replica renews: its slot, the time for which it may trust what it has read, and the name of the
//! server that a backend belongs to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use crate::{
    backend::{Backend, BackendError, RecordCondition, RecordVersion, with_timeout},
    engine::{ReplicaHandler, Slot},
    random,
};

/// The number of slots that a replica tries to take before it gives up.
const MAX_ATTEMPTS: usize = 16;

/// A slot that belongs to a replica as long as it renews the slot's record in time.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) slot: Slot,
    key: String,
    /// The value of the record, which no other replica writes.
    instance: String,
    version: RecordVersion,
    ttl: Duration,
    /// The time until which the record exists. The other replicas see the slot expire at this time or later.
    pub(super) valid_until: Instant,
    /// The time until the next attempt to renew the record.
    pause: Duration,
}

impl Lease {
    /// Takes a free slot.
    pub(super) async fn acquire(backend: &Arc<dyn Backend>, ttl: Duration) -> Result<Self, BackendError> {
        let no_random = || BackendError::Unavailable("no random bytes for the number of the replica".to_owned());
        let instance = random::id().ok_or_else(no_random)?;
        for _ in 0..MAX_ATTEMPTS {
            let slot = Slot::random().ok_or_else(no_random)?;
            let key = slot.key();
            let valid_until = Instant::now() + ttl;
            let value = instance.clone().into_bytes();
            if let Some(version) = with_timeout(backend.set(&key, RecordCondition::Absent, value, ttl)).await? {
                let pause = ttl / 3;
                return Ok(Self { slot, key, instance, version, ttl, valid_until, pause });
            }
        }
        Err(BackendError::Unavailable("no free number for the replica was found".to_owned()))
    }

    /// Waits until the lease is to be renewed, or a little after `is_due` is notified, and renews it. Returns the time at
    /// which that was requested, or an error if it is tried again soon. Returns `None` if the lease is lost: its time has
    /// passed, or the record is gone.
    pub(super) async fn renewal(
        &mut self,
        backend: &Arc<dyn Backend>,
        is_due: &Notify,
    ) -> Option<Result<Instant, BackendError>> {
        // A flood of notifications renews it as often as failures do.
        let earliest = Instant::now() + self.ttl / 20;
        let _ = timeout(self.pause, async {
            is_due.notified().await;
            sleep_until(earliest).await;
        })
        .await;
        let sent = Instant::now();
        match timeout_at(self.valid_until, self.renew(backend)).await {
            Ok(Ok(true)) => {
                self.valid_until = sent + self.ttl;
                self.pause = self.ttl / 3;
                Some(Ok(sent))
            }
            Ok(Err(error)) if Instant::now() < self.valid_until => {
                self.pause = self.ttl / 20;
                Some(Err(error))
            }
            _ => None,
        }
    }

    /// Renews the record. Returns `false` if it is gone.
    async fn renew(&mut self, backend: &Arc<dyn Backend>) -> Result<bool, BackendError> {
        loop {
            let value = self.instance.clone().into_bytes();
            let condition = RecordCondition::Version(self.version);
            if let Some(version) = with_timeout(backend.set(&self.key, condition, value, self.ttl)).await? {
                self.version = version;
                return Ok(true);
            }
            // An earlier attempt that seemed to fail may have taken effect.
            match with_timeout(backend.get(&self.key)).await? {
                Some(record) if *record.value == *self.instance.as_bytes() => self.version = record.version,
                _ => return Ok(false),
            }
        }
    }

    /// Deletes the record, so that the other replicas see at once that this replica is gone.
    pub(super) async fn release(self, backend: &Arc<dyn Backend>) {
        if let Err(error) = with_timeout(backend.delete(&self.key, RecordCondition::Version(self.version))).await {
            tracing::debug!(%error, "cannot release the lease of this replica");
        }
    }
}

/// The record that exists as long as a process of the server runs, and a little longer.
const KEY: &str = "mcp/1/server";

/// The number of attempts to read a record that other processes delete and create.
const MAX_NAME_ATTEMPTS: usize = 4;

/// The name of this server, which is the value of the record, and its previous names.
#[derive(Debug, Clone)]
pub(crate) struct ServerName {
    pub(crate) name: String,
    /// The names of servers with which this one may share a backend.
    pub(crate) former: Vec<String>,
}

impl ServerName {
    /// Returns whether this server may use what a server with this name has stored.
    pub(super) fn accepts(&self, name: &str) -> bool {
        name == self.name || self.former.iter().any(|former| former == name)
    }

    /// Claims the backend for this server, unless processes of another server use it. Returns the name of the server that
    /// uses it.
    pub(super) async fn claim(&self, backend: &Arc<dyn Backend>, ttl: Duration) -> Result<String, BackendError> {
        for _ in 0..MAX_NAME_ATTEMPTS {
            if let Some(record) = with_timeout(backend.get(KEY)).await? {
                return Ok(String::from_utf8_lossy(&record.value).into_owned());
            }
            let name = self.name.clone().into_bytes();
            if with_timeout(backend.set(KEY, RecordCondition::Absent, name, ttl)).await?.is_some() {
                return Ok(self.name.clone());
            }
        }
        Err(BackendError::Unavailable(format!("the record `{KEY}` changes too often")))
    }

    /// Keeps the record for as long as this process runs.
    pub(super) async fn renew(&self, backend: &Arc<dyn Backend>, ttl: Duration) -> Result<(), BackendError> {
        // The record of a former name expires when the last process with that name has ended.
        if self.former.is_empty() || self.claim(backend, ttl).await? == self.name {
            with_timeout(backend.set(KEY, RecordCondition::Always, self.name.clone().into_bytes(), ttl)).await?;
        }
        Ok(())
    }

    /// Returns the error for a backend that belongs to another server.
    pub(super) fn mismatch(&self, other: &str, ttl: Duration) -> String {
        let name = &self.name;
        format!(
            "the backend belongs to another server: this one is `{name}`, and processes of `{other}` use the same keys, or \
             did so in the last {ttl:?}\n\
             help: give each server a key prefix of its own, such as `Redis::builder(url).prefix(\"{name}:\")`; if the \
             server was renamed, add `.renamed_from(\"{other}\")`"
        )
    }
}

impl Slot {
    /// Chooses a slot. Returns `None` if the operating system provides no random bytes.
    fn random() -> Option<Self> {
        let mut bytes = [0; 4];
        // Zero is as unlikely as any other number, and no slot.
        random::fill(&mut bytes).then(|| Self::new((u32::from_ne_bytes(bytes) >> (u32::BITS - Self::BITS)).max(1)))?
    }

    /// Returns the key of the record that exists as long as the replica lives. It is also the name of the topic of
    /// messages to the replica.
    pub(super) fn key(self) -> String {
        format!("mcp/1/replica/{self}")
    }
}

/// Tells whether this replica would have heard of a change to the state that it has read.
///
/// A change goes unnoticed if messages do not arrive, or if the replica was not scheduled: a process that continues
/// after `SIGSTOP` may receive a request before the message that was sent earlier. Therefore, the replica sends itself
/// messages. The state that it has read is fresh for the time of a lease after the last message that arrived was sent,
/// while its task runs often enough.
#[derive(Debug)]
pub(super) struct Freshness {
    start: Instant,
    lease: Duration,
    /// The time until which changes are known to be announced, in nanoseconds after `start`.
    announced_until: AtomicU64,
    /// The time at which the task of the replica should have run again, in nanoseconds after `start`.
    scheduled_until: AtomicU64,
}

impl Freshness {
    /// The kind of the messages of a replica to itself.
    pub(super) const ECHO: &str = "echo";

    pub(super) fn new(lease: Duration) -> Self {
        let (announced_until, scheduled_until) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), lease, announced_until, scheduled_until }
    }

    /// Returns the maximum time for which the task of the replica does not run before everything is read again.
    pub(super) fn max_pause(&self) -> Duration {
        (self.lease / 40).max(Duration::from_millis(100))
    }

    /// Returns whether what was read is fresh at a time. This needs no lock.
    pub(super) fn is_fresh(&self, at: Instant) -> bool {
        let at = self.nanos(at);
        at < self.announced_until.load(Ordering::Acquire) && at < self.scheduled_until.load(Ordering::Acquire)
    }

    /// Records that the messages of all replicas arrive which are sent after this time.
    pub(super) fn heard(&self, sent: Instant) {
        self.announced_until.fetch_max(self.nanos(sent + self.lease), Ordering::AcqRel);
    }

    /// Records that the task of the replica runs.
    pub(super) fn scheduled(&self) {
        self.scheduled_until.store(self.nanos(Instant::now() + self.max_pause()), Ordering::Release);
    }

    /// Returns whether the task of the replica should have run before.
    pub(super) fn has_paused(&self) -> bool {
        self.nanos(Instant::now()) >= self.scheduled_until.load(Ordering::Acquire)
    }

    /// Records that messages no longer arrive.
    pub(super) fn end(&self) {
        self.announced_until.store(0, Ordering::Release);
    }

    /// Returns the message that proves that messages arrive which are sent after this time.
    pub(super) fn echo(&self, sent: Instant) -> Vec<u8> {
        self.nanos(sent).to_string().into_bytes()
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl ReplicaHandler for Freshness {
    fn message(&self, payload: &[u8]) {
        let sent = std::str::from_utf8(payload).ok().and_then(|nanos| nanos.parse().ok());
        if let Some(sent) = sent.map(Duration::from_nanos).and_then(|sent| self.start.checked_add(sent)) {
            // A message cannot have been sent later than now.
            self.heard(sent.min(Instant::now()));
        }
    }

    fn missed(&self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::sleep;

    use super::*;
    use crate::{
        backend::{BackendFuture, MemoryBackend, Records as _},
        cluster::ClusterOptions,
        testing::test_backend::{BackendHook, BackendOperation, TestBackend},
    };

    /// Makes requests, responses or both slow, by a number of milliseconds each.
    #[derive(Debug, Default)]
    struct Delays(AtomicU64, AtomicU64);

    impl BackendHook for Delays {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            _: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            let [before, after] = [&self.0, &self.1].map(|delay| Duration::from_millis(delay.load(Ordering::Relaxed)));
            Box::pin(async move {
                sleep(before).await;
                let result = run.await;
                sleep(after).await;
                result
            })
        }
    }

    const TTL: Duration = Duration::from_secs(3);

    /// However slow the backend is, a replica believes in its lease for no longer than the other replicas do.
    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_before_its_record() {
        for delays in [[0, 0], [0, 700], [700, 0], [300, 400], [1900, 0], [0, 1900], [900, 900], [2500, 0], [0, 2500]] {
            let hook = Arc::new(TestBackend::<_, MemoryBackend>::new(Delays::default()));
            let backend: Arc<dyn Backend> = Arc::clone(&hook) as _;
            let delay = |[before, after]: [u64; 2]| {
                hook.0.store(before, Ordering::Relaxed);
                hook.1.store(after, Ordering::Relaxed);
            };
            for renewals in 0..3 {
                delay(if renewals == 0 { delays } else { [0, 0] });
                let Ok(mut lease) = Lease::acquire(&backend, TTL).await else { continue };
                delay(delays);
                for _ in 0..renewals {
                    lease.renewal(&backend, &Notify::new()).await;
                }
                // The last moment at which the replica believes in the lease.
                tokio::time::sleep_until(lease.valid_until - Duration::from_millis(1)).await;
                let exists = hook.reliable().get(&lease.key).await.unwrap().is_some();
                assert!(exists || Instant::now() >= lease.valid_until, "{delays:?}, {renewals} renewals");
            }
        }
    }

    /// Lets operations fail until some time has passed since the creation.
    #[derive(Debug)]
    struct Interruption(Instant, std::ops::Range<Duration>);

    impl BackendHook for Interruption {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            _: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            Box::pin(async move {
                if self.1.contains(&self.0.elapsed()) {
                    return Err(BackendError::Unavailable("test".to_owned()));
                }
                run.await
            })
        }
    }

    /// A lease survives an interruption unless it lasts until shortly before the end of the lease.
    #[tokio::test(start_paused = true)]
    async fn a_lease_survives_an_interruption() {
        for (from, to) in [(500, 1500), (500, 2500), (500, 2800), (1500, 3500), (1500, 3800), (2500, 4800)] {
            let [from, to] = [from, to].map(Duration::from_millis);
            let backend: Arc<dyn Backend> =
                Arc::new(TestBackend::<_, MemoryBackend>::new(Interruption(Instant::now(), from..to)));
            let mut lease = Lease::acquire(&backend, TTL).await.unwrap();
            let end = Instant::now() + 3 * TTL;
            while Instant::now() < end {
                assert!(lease.renewal(&backend, &Notify::new()).await.is_some(), "{from:?} {to:?}");
            }
        }
    }

    /// A replica whose record belongs to another one has lost its lease.
    #[tokio::test(start_paused = true)]
    async fn the_lease_of_another_replica_is_not_renewed() {
        for value in [Some("another"), None] {
            let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
            let mut lease = Lease::acquire(&backend, TTL).await.unwrap();
            match value {
                Some(value) => {
                    let value = value.as_bytes().to_vec();
                    backend.set(&lease.key, RecordCondition::Always, value, 9 * TTL).await.unwrap();
                }
                None => assert!(backend.delete(&lease.key, RecordCondition::Always).await.unwrap()),
            }
            assert!(lease.renewal(&backend, &Notify::new()).await.is_none(), "{value:?}");
            let found = backend.get(&lease.key).await.unwrap().map(|record| record.value.to_vec());
            assert_eq!(found.as_deref(), value.map(str::as_bytes));
        }
    }

    /// A replica that was stopped for long does not delete the lease of the replica that has its slot now.
    #[tokio::test]
    async fn only_its_own_lease_is_released() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        for is_taken in [false, true] {
            let lease = Lease::acquire(&backend, TTL).await.unwrap();
            let key = lease.key.clone();
            if is_taken {
                assert!(backend.delete(&key, RecordCondition::Always).await.unwrap());
                let taken = backend.set(&key, RecordCondition::Absent, b"another".to_vec(), TTL).await.unwrap();
                assert!(taken.is_some());
            }
            lease.release(&backend).await;
            assert_eq!(backend.get(&key).await.unwrap().is_some(), is_taken);
        }
    }

    /// By default, state is read again after a pause of 0.25 seconds.
    #[test]
    fn the_pause_after_which_state_is_read_again_is_a_part_of_the_lease() {
        let default = ClusterOptions::default().lease;
        for (lease, millis) in [(default, 250), (Duration::from_secs(600), 15_000), (Duration::from_secs(1), 100)] {
            assert_eq!(Freshness::new(lease).max_pause(), Duration::from_millis(millis), "{lease:?}");
        }
    }

    /// Messages about the future do not make outdated state usable.
    #[tokio::test(start_paused = true)]
    async fn announcements_are_known_for_one_lease_after_the_last_echo() {
        let (latest, none) = (Some(TTL / 2 + TTL), None);
        for (sent, expected) in [
            ("0", Some(TTL)),
            ("9999999999999", latest),
            ("18446744073709551615", latest),
            ("", none),
            ("x", none),
            ("-1", none),
        ] {
            let freshness = Freshness::new(TTL);
            tokio::time::advance(TTL / 2).await;
            freshness.message(sent.as_bytes());
            let known_until = freshness.announced_until.load(Ordering::Acquire);
            let expected = expected.map_or(0, |time: Duration| u64::try_from(time.as_nanos()).unwrap());
            assert_eq!(known_until, expected, "{sent}");
        }
    }

    /// During a rolling update, processes with the former name are still started.
    #[tokio::test(start_paused = true)]
    async fn a_renamed_server_waits_until_processes_of_its_former_name_have_ended() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        let name = |name: &str, former: &[String]| ServerName { name: name.to_owned(), former: former.to_vec() };
        let (old, new) = (name("notes", &[]), name("tracker", &["notes".to_owned()]));
        let claimed = |name: &str| Ok(name.to_owned());
        assert_eq!(old.claim(&backend, TTL).await, claimed("notes"));
        for _ in 0..6 {
            for name in [&old, &new] {
                name.renew(&backend, TTL).await.unwrap();
                assert_eq!(old.claim(&backend, TTL).await, claimed("notes"));
                assert_eq!(new.claim(&backend, TTL).await, claimed("notes"));
            }
            sleep(TTL / 3).await;
        }
        sleep(TTL).await;
        new.renew(&backend, TTL).await.unwrap();
        assert_eq!(old.claim(&backend, TTL).await, claimed("tracker"));
    }
}
