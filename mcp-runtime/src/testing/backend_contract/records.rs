//! The contract of [`Records`](crate::backend::Records).

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};

use super::{LONG, Pair, long_key, pause, soon, until};
use crate::backend::{BackendError, Insertion, Record, RecordCondition, RecordQuota, RecordVersion};

/// The time to live of records that expire during the test.
const SOON_GONE: Duration = Duration::from_millis(50);

pub(super) async fn check(pair: &Pair) -> Result<(), BackendError> {
    a_change_requires_its_condition(pair).await?;
    concurrent_changes_exclude_each_other(pair).await?;
    values_are_kept_exactly(pair).await?;
    records_expire(pair).await?;
    the_last_change_decides_when_a_record_expires(pair).await?;
    refused_insertions_change_nothing(pair).await?;
    groups_are_listed_in_pages(pair).await?;
    long_groups_are_listed_completely(pair).await?;
    insertions_keep_the_quota(pair).await?;
    expired_records_make_room(pair).await?;
    only_records_that_exist_are_counted(pair).await?;
    concurrent_insertions_keep_the_quota(pair).await?;
    processes_agree_on_the_time(pair).await
}

async fn processes_agree_on_the_time(pair: &Pair) -> Result<(), BackendError> {
    let mut last = pair.one.now().await?;
    for records in [&pair.other, &pair.one, &pair.other] {
        pause().await;
        let now = records.now().await?;
        assert!(last < now, "a process sees an earlier time than another one before: {now}, after {last}");
        last = now;
    }
    Ok(())
}

async fn a_change_requires_its_condition(pair: &Pair) -> Result<(), BackendError> {
    for key in [pair.key("condition"), pair.key("condition:name")] {
        let set = async |condition| pair.one.set(&key, condition, b"x".to_vec(), LONG).await;
        let delete = async |condition| pair.other.delete(&key, condition).await;
        let never = RecordCondition::Version(RecordVersion::new(u64::MAX));
        assert_eq!(set(never).await?, None, "a record that does not exist has no version");
        assert!(!delete(RecordCondition::Always).await?, "a record that does not exist was deleted");
        let first = set(RecordCondition::Absent).await?.expect("the record does not exist yet");
        assert_eq!(set(RecordCondition::Absent).await?, None, "the record exists");
        let second = set(RecordCondition::Version(first)).await?.expect("the record has this version");
        assert_ne!(first, second, "a version was not changed");
        assert_eq!(set(RecordCondition::Version(first)).await?, None, "the record has another version");
        let found = pair.other.get(&key).await?.map(|record| record.version);
        assert_eq!(found, Some(second), "another process does not see a change");
        assert!(!delete(RecordCondition::Version(first)).await?, "the record has another version");
        assert!(!delete(RecordCondition::Absent).await?, "the record exists");
        assert!(delete(RecordCondition::Version(second)).await?, "the record has this version");
        assert_eq!(pair.one.get(&key).await?, None, "a deleted record was returned");
        let third = set(RecordCondition::Always).await?.expect("there is no condition");
        assert!(third != first && third != second, "a key has a version twice");
        assert_eq!(set(RecordCondition::Version(second)).await?, None, "the record has another version");
        let fourth = set(RecordCondition::Always).await?.expect("there is no condition");
        assert_ne!(third, fourth, "a version was not changed");
        assert!(delete(RecordCondition::Always).await?, "the record exists");
    }
    let long = long_key();
    let set = pair.one.set(&long, RecordCondition::Always, Vec::new(), LONG).await;
    assert_eq!(set, Err(BackendError::Full), "a key is too long");
    Ok(())
}

async fn concurrent_changes_exclude_each_other(pair: &Pair) -> Result<(), BackendError> {
    const CHANGES: usize = 8;
    let key = pair.key("counter");
    let mut tasks = JoinSet::new();
    for backend in pair.both().into_iter().cycle().take(8) {
        let (backend, key) = (Arc::clone(backend), key.clone());
        tasks.spawn(async move {
            let mut changes = 0;
            while changes < CHANGES {
                let current = backend.get(&key).await?;
                let condition =
                    current.as_ref().map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
                let value = vec![0; current.map_or(0, |record| record.value.len()) + 1];
                changes += usize::from(backend.set(&key, condition, value, LONG).await?.is_some());
            }
            Ok::<_, BackendError>(())
        });
    }
    while let Some(task) = soon("concurrent changes never succeed", tasks.join_next()).await {
        task.expect("a task must not panic")?;
    }
    let value = pair.one.get(&key).await?.map(|record| record.value.len());
    assert_eq!(value, Some(8 * CHANGES), "a change was overwritten");
    Ok(())
}

async fn values_are_kept_exactly(pair: &Pair) -> Result<(), BackendError> {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    for (name, value) in [("empty", vec![]), ("bytes", bytes), ("long", vec![7; 5 << 20])] {
        for key in [pair.key(name), pair.key(&format!("values:{name}"))] {
            pair.one.set(&key, RecordCondition::Absent, value.clone(), LONG).await?.expect("the record is new");
            let found = pair.other.get(&key).await?;
            assert!(found.is_some_and(|found| *found.value == *value), "`{name}` was altered");
            assert!(pair.one.delete(&key, RecordCondition::Always).await?);
        }
    }
    Ok(())
}

async fn records_expire(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("expiry");
    let key = |name| format!("{group}:{name}");
    let set = async |name, ttl| pair.one.set(&key(name), RecordCondition::Always, b"x".to_vec(), ttl).await;
    set("short", LONG).await?;
    set("long", SOON_GONE).await?;
    // The last change decides.
    set("short", SOON_GONE).await?;
    set("long", LONG).await?;
    until("a record does not expire", async || Ok(pair.other.get(&key("short")).await?.is_none())).await?;
    until_count(pair, &group, 1).await?;
    assert_eq!(names(&pair.one.list(&group, None, 9).await?), ["long"], "an expired record was listed");
    assert!(!pair.one.delete(&key("short"), RecordCondition::Always).await?, "an expired record was deleted");
    let again = pair.one.set(&key("short"), RecordCondition::Absent, Vec::new(), LONG).await?;
    assert!(again.is_some(), "an expired record exists");
    assert_eq!(pair.other.count(&group).await?, 2);
    Ok(())
}

/// Also if the two times nearly agree.
async fn the_last_change_decides_when_a_record_expires(pair: &Pair) -> Result<(), BackendError> {
    const TTL: Duration = Duration::from_secs(1);
    let check = async |key: String| {
        pair.one.set(&key, RecordCondition::Always, b"x".to_vec(), TTL).await?;
        let (ttl, changed) = (TTL + TTL / 20, Instant::now());
        pair.other.set(&key, RecordCondition::Always, b"y".to_vec(), ttl).await?;
        until("a record does not expire", async || Ok(pair.one.get(&key).await?.is_none())).await?;
        let lived = changed.elapsed();
        assert!(lived > ttl - ttl / 200, "a record lived for {lived:?} instead of {ttl:?}");
        Ok(())
    };
    tokio::try_join!(check(pair.key("last")), check(pair.key("last:name"))).map(drop)
}

/// An insertion that finds a record, or no room, changes neither the record, nor its version, nor another record.
async fn refused_insertions_change_nothing(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("refused");
    for (name, account) in [("1", "a"), ("2", "a"), ("3", "b")] {
        let quota = RecordQuota { account, ..TWO_OF_THREE };
        pair.one.insert(&group, name, name.into(), LONG, quota).await?;
    }
    let before = pair.one.list(&group, None, 9).await?;
    assert_eq!(names(&before), ["1", "2", "3"]);
    for name in ["1", "2", "3", "4"] {
        for account in ["a", "b", "c", ""] {
            let quota = RecordQuota { account, ..TWO_OF_THREE };
            let refused = pair.other.insert(&group, name, b"new".to_vec(), SOON_GONE, quota).await?;
            assert!(!matches!(refused, Insertion::Inserted(_)), "{name} of {account}: {refused:?}");
            assert_eq!(pair.one.list(&group, None, 9).await?, before, "{name} of {account}");
        }
    }
    Ok(())
}

async fn groups_are_listed_in_pages(pair: &Pair) -> Result<(), BackendError> {
    for name in ["a:1", "a:2", "a:3", "a:4:5", "b:1", "a", "a/1", "ab:1", "{a}:1", "}:1"] {
        let value = name.as_bytes().to_vec();
        let set = pair.one.set(&pair.key(name), RecordCondition::Absent, value, LONG).await?;
        assert!(set.is_some(), "`{name}` exists already");
    }
    for (group, after, limit, expected) in [
        ("a", None, 9, &["1", "2", "3", "4:5"] as &[&str]),
        ("a", None, 2, &["1", "2"]),
        ("a", None, 0, &[]),
        ("a", Some("2"), 1, &["3"]),
        ("a", Some("11"), 9, &["2", "3", "4:5"]),
        ("a", Some("5"), 9, &[]),
        ("b", None, 9, &["1"]),
        ("{a}", None, 9, &["1"]),
        ("}", None, 9, &["1"]),
        ("c", None, 9, &[]),
    ] {
        let found = pair.other.list(&pair.key(group), after, limit).await?;
        assert_eq!(names(&found), expected, "{group} {after:?} {limit}");
        for (name, record) in found {
            assert_eq!(*record.value, *format!("{group}:{name}").as_bytes());
        }
    }
    assert_eq!(pair.other.count(&pair.key("a")).await?, 4);
    assert_eq!(pair.other.count(&pair.key("c")).await?, 0);
    assert!(pair.one.delete(&pair.key("a:2"), RecordCondition::Always).await?);
    assert_eq!(names(&pair.other.list(&pair.key("a"), None, 2).await?), ["1", "3"]);
    assert_eq!(pair.other.count(&pair.key("a")).await?, 3);
    Ok(())
}

async fn long_groups_are_listed_completely(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("numbers");
    let expected: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
    for name in &expected {
        // Some of them have expired when they are listed.
        let ttl = if name.ends_with('7') { Duration::from_millis(1) } else { LONG };
        pair.one.set(&format!("{group}:{name}"), RecordCondition::Absent, Vec::new(), ttl).await?;
    }
    let expected: Vec<String> = expected.into_iter().filter(|name| !name.ends_with('7')).collect();
    until_count(pair, &group, expected.len()).await?;
    assert_eq!(names(&pair.other.list(&group, None, 1000).await?), expected);
    assert_eq!(names(&pair.other.list(&group, Some("100"), 150).await?), expected[91..241]);
    Ok(())
}

const TWO_OF_THREE: RecordQuota<'static> = RecordQuota { account: "", per_account: 2, total: 3 };

/// An insertion without its version.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Inserted,
    Exists,
    Full(usize, usize),
}

impl From<Insertion> for Outcome {
    fn from(insertion: Insertion) -> Self {
        match insertion {
            Insertion::Inserted(_) => Self::Inserted,
            Insertion::Exists => Self::Exists,
            Insertion::Full { of_account, in_total } => Self::Full(of_account, in_total),
        }
    }
}

async fn insertions_keep_the_quota(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("quota");
    let value = |name: &str| format!("value of {name}").into_bytes();
    for (account, name, expected, kept) in [
        ("a", "1", Outcome::Inserted, "1"),
        ("a", "1", Outcome::Exists, "1"),
        ("a", "2", Outcome::Inserted, "12"),
        ("a", "3", Outcome::Full(2, 2), "12"),
        ("a", "2", Outcome::Exists, "12"),
        ("b", "4", Outcome::Inserted, "124"),
        ("c", "5", Outcome::Full(0, 3), "124"),
        ("b", "5", Outcome::Full(1, 3), "124"),
        ("", "6", Outcome::Full(0, 3), "124"),
    ] {
        let quota = RecordQuota { account, ..TWO_OF_THREE };
        let inserted = pair.one.insert(&group, name, value(name), LONG, quota).await?;
        assert_eq!(Outcome::from(inserted), expected, "{name} of {account}");
        let found = pair.other.list(&group, None, 9).await?;
        assert_eq!(names(&found).concat(), kept, "after {name} of {account}");
        for (name, record) in found {
            assert_eq!(*record.value, *value(&name), "a value was altered");
            let Insertion::Inserted(version) = inserted else { continue };
            assert_eq!(name == kept[kept.len() - 1..], record.version == version, "{name} has another version");
        }
        assert_eq!(pair.other.count(&group).await?, kept.len());
    }
    // A change keeps the account, and a deletion frees its place.
    let key = format!("{group}:2");
    pair.one.set(&key, RecordCondition::Always, b"changed".to_vec(), LONG).await?;
    pair.one.set(&key, RecordCondition::Always, b"again".to_vec(), 2 * LONG).await?;
    assert!(pair.other.get(&key).await?.is_some_and(|record| *record.value == *b"again"), "a value was altered");
    let insert = async |name, account| {
        let quota = RecordQuota { account, total: 9, ..TWO_OF_THREE };
        pair.other.insert(&group, name, Vec::new(), LONG, quota).await.map(Outcome::from)
    };
    assert_eq!(insert("7", "a").await?, Outcome::Full(2, 3), "a change has lost the account");
    assert!(pair.one.delete(&key, RecordCondition::Always).await?);
    assert_eq!(insert("7", "a").await?, Outcome::Inserted, "a deleted record is counted");
    let long = "x".repeat(65);
    assert_eq!(insert("8", &long).await, Err(BackendError::Full), "an account is too long");
    Ok(())
}

async fn expired_records_make_room(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("room");
    let insert = async |name: &str, account, ttl| {
        let quota = RecordQuota { account, ..TWO_OF_THREE };
        pair.one.insert(&group, name, Vec::new(), ttl, quota).await.map(Outcome::from)
    };
    for (name, account, ttl) in [("1", "a", SOON_GONE), ("2", "a", LONG), ("3", "", SOON_GONE)] {
        assert_eq!(insert(name, account, ttl).await?, Outcome::Inserted);
    }
    // A change decides when a record no longer counts.
    pair.other.set(&format!("{group}:2"), RecordCondition::Always, Vec::new(), SOON_GONE).await?;
    for (name, account) in [("4", "a"), ("5", "a"), ("6", "")] {
        let is_inserted = async || insert(name, account, LONG).await.map(|outcome| outcome == Outcome::Inserted);
        until("expired records are counted", is_inserted).await?;
    }
    assert_eq!(insert("7", "a", LONG).await?, Outcome::Full(2, 3));
    assert_eq!(names(&pair.other.list(&group, None, 9).await?), ["4", "5", "6"]);
    Ok(())
}

/// An insertion that the quota refuses removes nothing, and expired records do not count.
async fn only_records_that_exist_are_counted(pair: &Pair) -> Result<(), BackendError> {
    // The accounts of the records 1, 2 and 3, of which the first one expires.
    for (case, accounts, expected, kept) in [
        ("room in the account", &["a", "a"] as &[&str], Outcome::Inserted, "2new"),
        ("room in the group", &["b", "a", "c"], Outcome::Inserted, "23new"),
        ("room in both", &["a", "a", "b"], Outcome::Inserted, "23new"),
        ("no room in the account", &["b", "a", "a"], Outcome::Full(2, 2), "23"),
    ] {
        let group = pair.key(&format!("counted/{case}"));
        let insert = async |name: &str, account, ttl| {
            let quota = RecordQuota { account, ..TWO_OF_THREE };
            pair.one.insert(&group, name, Vec::new(), ttl, quota).await.map(Outcome::from)
        };
        for (account, (name, ttl)) in accounts.iter().zip([("1", SOON_GONE), ("2", LONG), ("3", LONG)]) {
            assert_eq!(insert(name, *account, ttl).await?, Outcome::Inserted, "{case}");
        }
        until_count(pair, &group, accounts.len() - 1).await?;
        assert_eq!(insert("new", "a", LONG).await?, expected, "{case}");
        assert_eq!(names(&pair.other.list(&group, None, 9).await?).concat(), kept, "{case}");
    }
    Ok(())
}

/// Waits until a group has this number of records, because other records have expired.
async fn until_count(pair: &Pair, group: &str, expected: usize) -> Result<(), BackendError> {
    until("a record does not expire", async || Ok(pair.other.count(group).await? == expected)).await
}

async fn concurrent_insertions_keep_the_quota(pair: &Pair) -> Result<(), BackendError> {
    let group = pair.key("crowd");
    let mut tasks = JoinSet::new();
    for (number, backend) in pair.both().into_iter().cycle().take(16).enumerate() {
        let (backend, group) = (Arc::clone(backend), group.clone());
        tasks.spawn(async move {
            let account = if number % 4 < 2 { "a" } else { "b" };
            let quota = RecordQuota { account, ..TWO_OF_THREE };
            backend.insert(&group, &number.to_string(), Vec::new(), LONG, quota).await.map(Outcome::from)
        });
    }
    let mut inserted = 0;
    while let Some(task) = soon("concurrent insertions never end", tasks.join_next()).await {
        inserted += usize::from(task.expect("a task must not panic")? == Outcome::Inserted);
    }
    assert_eq!((inserted, pair.one.count(&group).await?), (3, 3), "concurrent insertions exceed the quota");
    Ok(())
}

fn names(found: &[(String, Record)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}
