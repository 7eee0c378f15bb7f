//! Records in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::ready,
    ops::Bound,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    error::{BackendError, BackendFuture},
    records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records},
    time::Timestamp,
};
use crate::stdx::{Mutex, debug};

/// The default maximum number of records.
const MAX_RECORDS: usize = 100_000;

/// The default maximum size of all records in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The maximum length in bytes of a key, and of the name of a topic.
pub(super) const MAX_KEY: usize = 1024;

/// The maximum length of an account in bytes.
const MAX_ACCOUNT: usize = 64;

/// Per-record overhead, excluding the value and the key, which is stored twice.
const OVERHEAD: usize = 160;

/// The longest time to live, which keeps the arithmetic of times within its range.
pub(super) const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// [`Records`] in the memory of one process.
///
/// It keeps at most 100,000 records with 64 MiB, including their keys and indexes, and rejects data beyond these
/// limits: records are removed only when they expire or are deleted.
///
/// ```
/// use mcp_runtime::backend::MemoryRecords;
///
/// let records = MemoryRecords::new(1_000, 1 << 20);
/// ```
pub struct MemoryRecords {
    store: Mutex<Store>,
    /// When the store was created, by the clock of the machine and by that by which records expire.
    created: (Timestamp, Instant),
}

#[derive(Default)]
struct Store {
    records: BTreeMap<Arc<str>, Entry>,
    /// All keys in the order in which their records expire.
    by_expiry: BTreeSet<(Instant, Arc<str>)>,
    /// The number of records of each group that has any, and of each account that has any as `GROUP:ACCOUNT`.
    counts: HashMap<Box<str>, usize>,
    bytes: usize,
    last_version: u64,
    max_records: usize,
    max_bytes: usize,
}

struct Entry {
    record: Record,
    expires: Instant,
    /// The account charged for this record, as `GROUP:ACCOUNT`. Empty if there is none.
    account: Box<str>,
}

impl MemoryRecords {
    /// Creates a store for at most this number of records, and of bytes.
    pub fn new(max_records: usize, max_bytes: usize) -> Self {
        let store = Mutex::new(Store { max_records, max_bytes, ..Store::default() });
        Self { store, created: (Timestamp::now(), Instant::now()) }
    }

    /// Locks the store and removes expired records.
    fn lock(&self) -> MutexGuard<'_, Store> {
        let mut store = self.store.lock();
        store.remove_expired(Instant::now());
        store
    }
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self::new(MAX_RECORDS, MAX_BYTES)
    }
}

// Omits the contents, which may be secret.
debug!(MemoryRecords, self, records: self.lock().records.len());

impl Store {
    fn remove_expired(&mut self, now: Instant) {
        while self.by_expiry.first().is_some_and(|(expires, _)| *expires <= now)
            && let Some((_, key)) = self.by_expiry.first().cloned()
        {
            self.remove(&key);
        }
    }

    fn version(&self, key: &str) -> Option<RecordVersion> {
        self.records.get(key).map(|entry| entry.record.version)
    }

    fn insert(
        &mut self,
        group: &str,
        name: &str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'_>,
    ) -> Result<Insertion, BackendError> {
        if quota.account.len() > MAX_ACCOUNT {
            return Err(BackendError::Full);
        }
        let key = |name| [group, ":", name].concat();
        let (new, account) = (key(name), if quota.account.is_empty() { String::new() } else { key(quota.account) });
        if self.records.contains_key(&*new) {
            return Ok(Insertion::Exists);
        }
        let (of_account, in_total) = (self.count(&account), self.count(group));
        if (!account.is_empty() && of_account >= quota.per_account) || in_total >= quota.total {
            return Ok(Insertion::Full { of_account, in_total });
        }
        self.write(&new, value, ttl, account.into()).map(Insertion::Inserted)
    }

    /// Writes a record. `account` is the account of a new record, empty if it has none.
    fn write(
        &mut self,
        key: &str,
        value: Vec<u8>,
        ttl: Duration,
        account: Box<str>,
    ) -> Result<RecordVersion, BackendError> {
        let before = self.records.get(key);
        let entries = self.records.len() + usize::from(before.is_none());
        let bytes = before.map_or(self.bytes + account.len(), |before| self.bytes - size_of(key, &before.record.value))
            + size_of(key, &value);
        if key.len() > MAX_KEY || entries > self.max_records || bytes > self.max_bytes {
            return Err(BackendError::Full);
        }
        self.last_version += 1;
        let version = RecordVersion::new(self.last_version);
        let (expires, record) = (Instant::now() + ttl.min(MAX_TTL), Record::new(value, version));
        self.bytes = bytes;
        let known = self.records.get_key_value(key).map(|(key, _)| Arc::clone(key));
        if let Some(key) = known
            && let Some(entry) = self.records.get_mut(&key)
        {
            entry.record = record;
            let before = (std::mem::replace(&mut entry.expires, expires), key);
            self.by_expiry.remove(&before);
            self.by_expiry.insert((expires, before.1));
            return Ok(version);
        }
        counted(key, &account).for_each(|of| self.increment(of));
        let key: Arc<str> = key.into();
        self.by_expiry.insert((expires, Arc::clone(&key)));
        self.records.insert(key, Entry { record, expires, account });
        Ok(version)
    }

    fn remove(&mut self, key: &str) -> bool {
        let Some((key, entry)) = self.records.remove_entry(key) else { return false };
        self.bytes -= size_of(&key, &entry.record.value) + entry.account.len();
        counted(&key, &entry.account).for_each(|of| self.decrement(of));
        self.by_expiry.remove(&(entry.expires, key))
    }

    fn count(&self, of: &str) -> usize {
        self.counts.get(of).copied().unwrap_or_default()
    }

    fn increment(&mut self, of: &str) {
        match self.counts.get_mut(of) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(of.into(), 1)),
        }
    }

    fn decrement(&mut self, of: &str) {
        if let Some(count) = self.counts.get_mut(of) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(of);
            }
        }
    }

    /// Returns the records of a group with their names, in the order of the names.
    fn group(&self, group: &str, after: Option<&str>) -> impl Iterator<Item = (&str, &Record)> {
        let prefix = format!("{group}:");
        let start = match after {
            Some(after) => Bound::Excluded(format!("{prefix}{after}")),
            None => Bound::Included(prefix.clone()),
        };
        let range = self.records.range::<str, _>((start.as_ref().map(String::as_str), Bound::Unbounded));
        range.map_while(move |(key, entry)| Some((key.strip_prefix(&prefix)?, &entry.record)))
    }
}

/// Returns the group and the account for which a record counts, if any.
fn counted<'a>(key: &'a str, account: &'a str) -> impl Iterator<Item = &'a str> {
    let group = key.split_once(':').map(|(group, _)| group);
    group.into_iter().chain(Some(account).filter(|account| !account.is_empty()))
}

fn size_of(key: &str, value: &[u8]) -> usize {
    key.len() + value.len() + OVERHEAD
}

impl Records for MemoryRecords {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        Box::pin(ready(Ok(self.lock().records.get(key).map(|entry| entry.record.clone()))))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        let mut store = self.lock();
        let holds = condition.holds(store.version(key));
        Box::pin(ready(holds.then(|| store.write(key, value, ttl, Box::default())).transpose()))
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        Box::pin(ready(self.lock().insert(group, name, value, ttl, quota)))
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        let mut store = self.lock();
        let deleted = condition.holds(store.version(key)) && store.remove(key);
        Box::pin(ready(Ok(deleted)))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        let store = self.lock();
        let found = store.group(group, after).take(limit);
        let found = found.map(|(name, record)| (name.to_owned(), record.clone())).collect();
        Box::pin(ready(Ok(found)))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        Box::pin(ready(Ok(self.lock().count(group))))
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        let (created, at) = self.created;
        Box::pin(ready(Ok(created.saturating_add(at.elapsed()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn only_one_change_of_a_version_succeeds() {
        let records = MemoryRecords::default();
        let set = |condition| records.set("a", condition, b"x".to_vec(), HOUR);
        let first = set(RecordCondition::Absent).await.unwrap().unwrap();
        assert_eq!(set(RecordCondition::Absent).await, Ok(None));
        let second = set(RecordCondition::Version(first)).await.unwrap().unwrap();
        assert_ne!(first, second);
        assert_eq!(set(RecordCondition::Version(first)).await, Ok(None));
        assert_eq!(records.delete("a", RecordCondition::Version(first)).await, Ok(false));
        assert_eq!(records.get("a").await.unwrap().unwrap().version, second);
        assert_eq!(records.delete("a", RecordCondition::Version(second)).await, Ok(true));
        assert_eq!(records.delete("a", RecordCondition::Always).await, Ok(false));
        let third = set(RecordCondition::Always).await.unwrap().unwrap();
        assert!(third != first && third != second, "a deleted key does not get an earlier version");
    }

    #[tokio::test(start_paused = true)]
    async fn records_expire_and_free_their_memory() {
        let records = MemoryRecords::default();
        for (key, ttl) in [("a", 10), ("b", 20), ("c", 30)] {
            let ttl = Duration::from_secs(ttl);
            let key = format!("g:{key}");
            records.set(&key, RecordCondition::Absent, vec![0; 100], ttl).await.unwrap().unwrap();
        }
        records.set("g:c", RecordCondition::Always, vec![0; 50], Duration::from_secs(5)).await.unwrap().unwrap();
        for (wait, expected) in [(4, &["a", "b", "c"] as &[&str]), (1, &["a", "b"]), (5, &["b"]), (10, &[])] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            let names: Vec<_> = records.list("g", None, 9).await.unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expected);
            assert_eq!(records.count("g").await, Ok(expected.len()));
        }
        let store = records.lock();
        assert_eq!((store.records.len(), store.by_expiry.len(), store.counts.len(), store.bytes), (0, 0, 0, 0));
    }

    #[tokio::test]
    async fn a_record_may_have_any_time_to_live() {
        let records = MemoryRecords::default();
        for ttl in [Duration::MAX, Duration::MAX / 2] {
            assert!(records.set("a", RecordCondition::Always, Vec::new(), ttl).await.unwrap().is_some(), "{ttl:?}");
            assert!(records.get("a").await.unwrap().is_some(), "{ttl:?}");
        }
    }

    #[tokio::test]
    async fn a_full_store_rejects_what_exceeds_its_limits_and_keeps_the_rest() {
        let entry = OVERHEAD + 1;
        let (by_bytes, by_number) = (MemoryRecords::new(9, 2 * entry + 100), MemoryRecords::new(2, 1 << 20));
        for (records, key, bytes, fits) in [
            (&by_bytes, "a", 50, true),
            (&by_bytes, "b", 51, false),
            (&by_bytes, "b", 50, true),
            (&by_bytes, "a", 51, false),
            (&by_bytes, "a", 0, true),
            (&by_bytes, "b", 100, true),
            (&by_bytes, "c", 0, false),
            (&by_number, "a", 50, true),
            (&by_number, "b", 50, true),
            (&by_number, "c", 0, false),
            (&by_number, "b", 500, true),
        ] {
            let set = records.set(key, RecordCondition::Always, vec![0; bytes], HOUR).await;
            assert_eq!(set.is_ok(), fits, "{key} {bytes}");
            assert!(fits || set == Err(BackendError::Full));
        }
        assert_eq!(by_bytes.lock().records.len(), 2);
        let long = "x".repeat(MAX_KEY + 1);
        assert_eq!(by_number.set(&long, RecordCondition::Always, vec![], HOUR).await, Err(BackendError::Full));
    }

    #[tokio::test]
    async fn the_records_of_a_group_are_listed_in_pages() {
        let records = MemoryRecords::default();
        for key in ["a:1", "a:2", "a:3", "a:4:5", "b:1", "a", "a/1", "ab:1"] {
            records.set(key, RecordCondition::Absent, Vec::new(), HOUR).await.unwrap();
        }
        for (group, after, limit, expected) in [
            ("a", None, 9, &["1", "2", "3", "4:5"] as &[&str]),
            ("a", None, 2, &["1", "2"]),
            ("a", Some("2"), 1, &["3"]),
            ("a", Some("11"), 9, &["2", "3", "4:5"]),
            ("a", Some("5"), 9, &[]),
            ("b", None, 9, &["1"]),
            ("c", None, 9, &[]),
        ] {
            let found = records.list(group, after, limit).await.unwrap();
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, expected, "{group} {after:?} {limit}");
        }
        for (group, count) in [("a", 4), ("b", 1), ("ab", 1), ("c", 0), ("a:4", 0)] {
            assert_eq!(records.count(group).await, Ok(count), "{group}");
        }
    }

    #[tokio::test]
    async fn values_are_not_logged() {
        let records = MemoryRecords::default();
        records.set("a", RecordCondition::Absent, b"a secret".to_vec(), HOUR).await.unwrap();
        let record = records.get("a").await.unwrap().unwrap();
        let text = format!("{records:?} {record:?}");
        assert!(!text.contains("secret") && !text.contains("97, 32"), "{text}");
    }

    /// A record as the simplest implementation keeps it.
    struct Kept {
        record: Record,
        expires: Instant,
        account: String,
    }

    /// Random operations on a small store, which refuses many of them, do the same as on a list.
    #[tokio::test(start_paused = true)]
    async fn a_refused_operation_changes_nothing() {
        const KEYS: [&str; 6] = ["g:1", "g:2", "g:3", "g:4", "h:1", "x"];
        for seed in 0..60_u64 {
            let mut random = seed;
            let mut below = |limit: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % limit
            };
            let (max_records, max_bytes) = [(3, 1 << 20), (9, 3 * OVERHEAD + 100)][seed as usize % 2];
            let store = MemoryRecords::new(max_records, max_bytes);
            let mut kept = BTreeMap::<&str, Kept>::new();
            for step in 0..200 {
                let key = KEYS[below(6) as usize];
                let (value, ttl) = (vec![step as u8; below(80) as usize], Duration::from_secs(1 + below(20)));
                let account = ["", "a", "b"][below(3) as usize];
                let found = kept.get(key);
                let condition = match (below(4), found) {
                    (0, _) => RecordCondition::Always,
                    (1, _) => RecordCondition::Absent,
                    (2, Some(found)) => RecordCondition::Version(found.record.version),
                    _ => RecordCondition::Version(RecordVersion::new(below(20))),
                };
                let holds = condition.holds(found.map(|found| found.record.version));
                let others = kept.iter().filter(|(other, _)| **other != key);
                let used = others.map(|(key, kept)| size_of(key, &kept.record.value) + kept.account.len());
                let (number, bytes) =
                    used.fold((1, size_of(key, &value)), |(number, all), one| (number + 1, all + one));
                let fits = |account: usize| number <= max_records && bytes + account <= max_bytes;
                let mut written = None;
                match (below(3), key.split_once(':')) {
                    (0, _) => {
                        let deleted = store.delete(key, condition).await.unwrap();
                        assert_eq!(deleted, holds && found.is_some(), "{seed} {step}");
                        kept.retain(|other, _| *other != key || !deleted);
                    }
                    (1, Some((group, name))) => {
                        let full_account = format!("{group}:{account}");
                        let count =
                            |of: &dyn Fn(&str, &Kept) -> bool| kept.iter().filter(|(key, it)| of(key, it)).count();
                        let in_total = count(&|key, _| key.starts_with(&format!("{group}:")));
                        let of_account = count(&|_, it| !account.is_empty() && it.account == full_account);
                        let charged = if account.is_empty() { String::new() } else { full_account };
                        let has_room = in_total < 3 && (account.is_empty() || of_account < 2);
                        let expected = match found {
                            Some(_) => Ok(Insertion::Exists),
                            None if !has_room => Ok(Insertion::Full { of_account, in_total }),
                            None if !fits(charged.len()) => Err(BackendError::Full),
                            None => Ok(Insertion::Inserted(RecordVersion::new(0))),
                        };
                        let quota = RecordQuota { account, per_account: 2, total: 3 };
                        match store.insert(group, name, value.clone(), ttl, quota).await {
                            Ok(Insertion::Inserted(version)) => {
                                assert!(matches!(expected, Ok(Insertion::Inserted(_))), "{seed} {step}");
                                written = Some((version, charged));
                            }
                            refused => assert_eq!(refused, expected, "{seed} {step}"),
                        }
                    }
                    _ => {
                        let account = found.map_or_else(String::new, |found| found.account.clone());
                        match store.set(key, condition, value.clone(), ttl).await {
                            Ok(Some(version)) => {
                                assert!(holds && fits(account.len()), "{seed} {step}");
                                written = Some((version, account));
                            }
                            Ok(None) => assert!(!holds, "{seed} {step}"),
                            Err(error) => {
                                assert!(error == BackendError::Full && holds && !fits(account.len()), "{seed} {step}");
                            }
                        }
                    }
                }
                if let Some((version, account)) = written {
                    let record = Record::new(value, version);
                    kept.insert(key, Kept { record, expires: Instant::now() + ttl, account });
                }
                tokio::time::advance(Duration::from_millis(500 * below(4))).await;
                kept.retain(|_, it| Instant::now() < it.expires);
                for key in KEYS {
                    let expected = kept.get(key).map(|kept| &kept.record);
                    assert_eq!(store.get(key).await.unwrap().as_ref(), expected, "{seed} {step} {key}");
                }
                for group in ["g", "h"] {
                    let of_group =
                        kept.iter().filter_map(|(key, it)| Some((key.strip_prefix(group)?.strip_prefix(':')?, it)));
                    let expected: Vec<_> = of_group.map(|(name, it)| (name.to_owned(), it.record.clone())).collect();
                    assert_eq!(store.count(group).await.unwrap(), expected.len(), "{seed} {step}");
                    assert_eq!(store.list(group, None, 9).await.unwrap(), expected, "{seed} {step}");
                }
            }
        }
    }
}
