//! The keys that seal request states: rotation, and sharing through the backend.

use std::{pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use crate::{
    backend::{
        BACKEND_TIMEOUT, Backend, BackendClock, BackendError, Backoff, Record, RecordCondition, Timestamp, with_timeout,
    },
    engine::{KEY_ID_LEN, SharedKeys, StateKey, base64_key},
    error::Fault,
    stdx::race,
};

/// The age at which a key gets a successor.
const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);
/// The age at which a key starts to seal, unless it is the first one. By then, every process knows it.
const ACTIVATION: Duration = Duration::from_secs(5 * 60);
/// The maximum number of keys, more than two months' worth. Beyond it, the oldest keys are dropped.
const MAX_KEYS: usize = 64;

/// The keys of a service, the newest one first.
///
/// Rings that different processes have changed are united, and a key that one of them still needs is kept. So nothing
/// is lost if two processes create the first key, or if the ring is lost by the backend and put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KeyRing {
    keys: Vec<DatedKey>,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DatedKey {
    #[serde(with = "base64_key")]
    key: StateKey,
    created: Timestamp,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl KeyRing {
    /// Returns the key that seals, or `None` if the ring is empty.
    fn sealing(&self, now: Timestamp) -> Option<&StateKey> {
        let is_active = |dated: &&DatedKey| now.saturating_duration_since(dated.created) >= ACTIVATION;
        self.keys.iter().find(is_active).or(self.keys.last()).map(|dated| &dated.key)
    }

    fn find(&self, id: [u8; KEY_ID_LEN]) -> Option<&StateKey> {
        self.keys.iter().map(|dated| &dated.key).find(|key| key.id() == id)
    }

    /// Adds the keys of another ring, and drops the keys whose states, which live for `ttl`, have all expired.
    fn unite(&mut self, other: &Self, now: Timestamp, ttl: Duration) {
        for dated in &other.keys {
            if !self.keys.iter().any(|known| known.key == dated.key) {
                self.keys.push(dated.clone());
            }
        }
        for (name, value) in &other.other {
            self.other.entry(name).or_insert_with(|| value.clone());
        }
        self.keys.sort_by_key(|dated| std::cmp::Reverse((dated.created, dated.key.id())));
        // A key seals until its successor is active in every process.
        let retired = |successor: &DatedKey| {
            now > successor.created.saturating_add(ACTIVATION).saturating_add(ACTIVATION).saturating_add(ttl)
        };
        if let Some(last) = self.keys.iter().position(retired) {
            self.keys.truncate(last + 1);
        }
        self.keys.truncate(MAX_KEYS);
    }

    /// Returns whether the newest key is due to get a successor.
    fn is_due(&self, now: Timestamp) -> bool {
        self.keys.first().is_none_or(|newest| now.saturating_duration_since(newest.created) >= ROTATION)
    }

    /// Adds a key.
    fn add(&mut self, key: StateKey, created: Timestamp) {
        self.keys.insert(0, DatedKey { key, created, other: Map::new() });
    }
}

/// The record of the keys. Its value is the JSON of a [`KeyRing`].
const RECORD: &str = "mcp/1/state-keys";
/// The time between two reads of the record.
const INTERVAL: Duration = Duration::from_secs(60);
/// The minimum time between two reads that states with unknown keys cause.
const MIN_INTERVAL: Duration = Duration::from_secs(3);
/// The number of attempts to change the record while other processes change it, too.
const MAX_ATTEMPTS: usize = 16;

/// The keys that all processes of a service share: read, created and rotated in the background.
#[derive(Debug)]
pub(super) struct StoredKeys {
    backend: Arc<dyn Backend>,
    clock: Arc<BackendClock>,
    /// How long a state lives.
    ttl: Duration,
    known: watch::Sender<Known>,
    /// Wakes [`run`](Self::run).
    unknown_key: Notify,
}

#[derive(Debug, Default)]
struct Known {
    ring: KeyRing,
    /// The time of the last successful read.
    read: Option<Instant>,
    /// Whether the last read has failed.
    has_failed: bool,
}

impl StoredKeys {
    pub(super) fn new(backend: Arc<dyn Backend>, clock: Arc<BackendClock>, ttl: Duration) -> Self {
        Self { backend, clock, ttl, known: watch::Sender::default(), unknown_key: Notify::new() }
    }

    /// Keeps the keys up to date. Never completes.
    pub(super) async fn run(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.refresh().await {
                Ok(()) => {
                    backoff.reset();
                    let start = Instant::now();
                    let _ = race(tokio::time::sleep(INTERVAL), self.unknown_key.notified()).await;
                    tokio::time::sleep_until(start + MIN_INTERVAL).await;
                }
                Err(error) => {
                    self.known.send_modify(|known| known.has_failed = true);
                    if backoff.is_reset() {
                        tracing::warn!(%error, "the keys for request states cannot be read: retrying");
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// Reads the keys, and changes them if one is due or if the record lacks keys that this process knows.
    async fn refresh(&self) -> Result<(), BackendError> {
        // States contain times, so no key is used before the time is known.
        with_timeout(self.clock.update(&*self.backend, 0)).await?;
        for _ in 0..MAX_ATTEMPTS {
            let record = with_timeout(self.backend.get(RECORD)).await?;
            let stored = record.as_ref().map_or_else(|| Ok(KeyRing::default()), decode)?;
            let now = self.clock.now();
            let mut ring = stored.clone();
            ring.unite(&self.known.borrow().ring, now, self.ttl);
            if ring.is_due(now) {
                let no_key = || BackendError::Unavailable("no random bytes for a state key".to_owned());
                ring.add(StateKey::random().ok_or_else(no_key)?, now);
            }
            if ring != stored && !self.write(&ring, record).await? {
                continue;
            }
            self.known.send_replace(Known { ring, read: Some(Instant::now()), has_failed: false });
            return Ok(());
        }
        Err(BackendError::Unavailable("other processes keep changing the state keys".to_owned()))
    }

    /// Replaces the record that was read. Returns `false` if another process was faster.
    async fn write(&self, ring: &KeyRing, read: Option<Record>) -> Result<bool, BackendError> {
        let condition = read.map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
        // Text and numbers can always be encoded.
        let value = serde_json::to_vec(ring).unwrap_or_default();
        // The next key is due before the record expires, and no state outlives it.
        let ttl = (ROTATION * 2).saturating_add(self.ttl);
        Ok(with_timeout(self.backend.set(RECORD, condition, value, ttl)).await?.is_some())
    }
}

impl SharedKeys for StoredKeys {
    fn is_ready(&self) -> bool {
        self.known.borrow().ring.sealing(self.clock.now()).is_some()
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let is_settled = |known: &Known| known.has_failed || known.ring.sealing(self.clock.now()).is_some();
        Box::pin(async move {
            let mut known = self.known.subscribe();
            if !is_settled(&known.borrow()) {
                self.unknown_key.notify_one();
                let _ = timeout(BACKEND_TIMEOUT, known.wait_for(is_settled)).await;
            }
        })
    }

    fn sealing(&self) -> Result<StateKey, Fault> {
        let key = self.known.borrow().ring.sealing(self.clock.now()).cloned();
        key.ok_or_else(|| BackendError::Unavailable("the state keys have not been read yet".to_owned()).into())
    }

    /// Invented ids cause at most one read per [`MIN_INTERVAL`].
    fn find(&self, id: [u8; KEY_ID_LEN]) -> Result<Option<StateKey>, Fault> {
        let known = self.known.borrow();
        let key = known.ring.find(id).cloned();
        if key.is_some() || known.read.is_some_and(|read| read.elapsed() < MIN_INTERVAL) {
            return Ok(key);
        }
        self.unknown_key.notify_one();
        Err(Fault::overloaded("the key of `requestState` is unknown, and keys are being read again: retry"))
    }
}

fn decode(record: &Record) -> Result<KeyRing, BackendError> {
    let malformed = |_| BackendError::Unavailable(format!("the record `{RECORD}` is malformed"));
    serde_json::from_slice(&record.value).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::{
        backend::MemoryBackend,
        testing::test_backend::{BackendOperation, Failing, TestBackend, unavailable},
    };

    const KEY_LEN: usize = 32;

    const TTL: Duration = Duration::from_secs(3600);

    fn key(byte: u8) -> StateKey {
        StateKey::new([byte; KEY_LEN])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_millis(1_000_000_000).saturating_add(Duration::from_secs(seconds))
    }

    /// Returns a ring with a key for each of these times, numbered from 1.
    fn ring(created: &[u64]) -> KeyRing {
        let mut ring = KeyRing::default();
        (1..).zip(created).for_each(|(number, created)| ring.add(key(number), at(*created)));
        ring
    }

    #[test]
    fn a_key_seals_from_its_activation_until_that_of_its_successor() {
        let (day, activation) = (ROTATION.as_secs(), ACTIVATION.as_secs());
        for (created, now, sealing) in [
            (&[][..], 0, None),
            // The first key is needed at once.
            (&[0], 0, Some(1)),
            (&[0, day], day, Some(1)),
            (&[0, day], day + activation - 1, Some(1)),
            (&[0, day], day + activation, Some(2)),
            // Two processes have created the first key.
            (&[0, 1], 1, Some(1)),
        ] {
            assert_eq!(ring(created).sealing(at(now)), sealing.map(key).as_ref(), "{created:?} {now}");
        }
        assert!(ring(&[]).is_due(at(0)) && !ring(&[0]).is_due(at(day - 1)) && ring(&[0]).is_due(at(day)));
    }

    #[test]
    fn a_key_is_kept_until_its_states_have_expired() {
        let day = ROTATION.as_secs();
        let expiry = day + 2 * ACTIVATION.as_secs() + TTL.as_secs();
        for (now, remain) in [(day, 2), (expiry, 2), (expiry + 1, 1), (expiry + 100 * day, 1)] {
            let mut united = ring(&[0, day]);
            united.unite(&KeyRing::default(), at(now), TTL);
            assert_eq!(united.keys.len(), remain, "{now}");
            assert!(united.find(key(2).id()).is_some());
            assert_eq!(united.find(key(1).id()).is_some(), remain == 2);
        }
    }

    #[test]
    fn rings_are_united_whatever_their_order_and_are_bounded() {
        let (one, other) = (ring(&[0, 7]), {
            let mut other = KeyRing::default();
            other.add(key(9), at(7));
            other.add(key(8), at(3));
            other
        });
        let [mut left, mut right] = [one.clone(), other.clone()];
        left.unite(&other, at(10), TTL);
        right.unite(&one, at(10), TTL);
        assert_eq!(left, right);
        assert_eq!(left.keys.len(), 4);
        left.unite(&ring(&[10; 100]), at(10), TTL);
        assert_eq!(left.keys.len(), MAX_KEYS);
        let encoded = serde_json::to_vec(&right).unwrap();
        assert_eq!(serde_json::from_slice::<KeyRing>(&encoded).unwrap(), right);
        assert!(!format!("{right:?}").contains("CQkJ"), "keys are secret");
    }

    #[test]
    fn what_a_newer_release_has_added_is_kept() {
        let mut newer = serde_json::to_value(ring(&[0])).unwrap();
        newer["more"] = json!([1]);
        newer["keys"][0]["note"] = json!("kept");
        let read: KeyRing = serde_json::from_value(newer.clone()).unwrap();
        let mut united = KeyRing::default();
        united.unite(&read, at(1), TTL);
        assert_eq!(serde_json::to_value(&united).unwrap(), newer);
    }

    /// A new key seals in all processes at once, and they can still open what its predecessor has sealed.
    #[tokio::test(start_paused = true)]
    async fn processes_change_the_key_once_a_day() {
        let backend: Arc<dyn Backend> = Arc::new(crate::backend::MemoryBackend::default());
        let processes = [(); 2].map(|()| Arc::new(StoredKeys::new(Arc::clone(&backend), Arc::default(), TTL)));
        let running = processes.clone().map(|keys| tokio::spawn(async move { keys.run().await }));
        let mut last = None;
        for day in 0..4 {
            tokio::time::sleep(INTERVAL).await;
            let [one, other] = processes.each_ref().map(|keys| keys.sealing().unwrap().id());
            assert!(one == other && last != Some(one), "day {day}");
            if let Some(last) = last {
                assert!(processes.iter().all(|keys| keys.find(last).unwrap().is_some()), "day {day}");
            }
            last = Some(one);
            tokio::time::sleep(ROTATION + ACTIVATION).await;
        }
        running.iter().for_each(tokio::task::JoinHandle::abort);
    }

    /// No process may run when the record would expire, and the backend may lose it.
    #[tokio::test(start_paused = true)]
    async fn keys_are_known_for_as_long_as_there_are_states_that_they_have_sealed() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        let process = || StoredKeys::new(Arc::clone(&backend), Arc::default(), TTL);
        let first = process();
        first.refresh().await.unwrap();
        let id = first.sealing().unwrap().id();
        sleep(ROTATION + TTL).await;
        let second = process();
        second.refresh().await.unwrap();
        assert!(second.find(id).unwrap().is_some(), "no process was running");
        assert!(backend.delete(RECORD, RecordCondition::Always).await.unwrap());
        second.refresh().await.unwrap();
        let third = process();
        third.refresh().await.unwrap();
        assert!(third.find(id).unwrap().is_some(), "the backend has lost the keys");
    }

    const DELAY: Duration = Duration::from_millis(100);

    /// Returns keys that are read from a backend until the runtime ends.
    fn running(backend: impl Backend) -> Arc<StoredKeys> {
        let keys = Arc::new(StoredKeys::new(Arc::new(backend), Arc::default(), TTL));
        let running = Arc::clone(&keys);
        tokio::spawn(async move { running.run().await });
        keys
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_ends_the_wait_for_the_keys() {
        let keys = running(TestBackend::<_, MemoryBackend>::new(Failing(|_: BackendOperation<'_>| Err(unavailable()))));
        let begun = Instant::now();
        keys.ready().await;
        assert!(begun.elapsed() < BACKEND_TIMEOUT && keys.sealing().is_err());
    }

    /// After that, the id may belong to a key that was added since.
    #[tokio::test(start_paused = true)]
    async fn unknown_ids_are_rejected_without_a_read_for_one_interval() {
        let keys = StoredKeys::new(Arc::new(MemoryBackend::default()), Arc::default(), TTL);
        keys.refresh().await.unwrap();
        let find = || keys.find([0xff; KEY_ID_LEN]);
        let last = MIN_INTERVAL - Duration::from_millis(1);
        tokio::time::advance(last).await;
        assert!(find().unwrap().is_none());
        tokio::time::advance(MIN_INTERVAL - last).await;
        assert!(find().is_err());
    }

    /// Further unknown ids arrive while the keys are read because of the first one.
    #[tokio::test(start_paused = true)]
    async fn unknown_ids_cause_one_read_per_interval_at_most() {
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(DELAY));
        let keys = running(Arc::clone(&backend));
        keys.ready().await;
        let (before, begun) = (backend.operations(), Instant::now());
        while begun.elapsed() < MIN_INTERVAL * 10 {
            let _ = keys.find([0xff; KEY_ID_LEN]);
            sleep(DELAY / 10).await;
        }
        let reads = backend.operations() - before;
        assert!((5..=10).contains(&reads), "{reads} reads");
    }
}
