//! The contract of a backend, as a test.

mod records;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use tokio::task::JoinSet;

use crate::backend::{
    Append, Backend, BackendError, EventLogEntry, LogBounds, LogPosition, RecordCondition, TopicEvent,
    TopicSubscription,
};

/// The time within which an expected event must occur.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time to live of data that must not expire during the test.
const LONG: Duration = Duration::from_secs(600);

/// Checks that a backend does what [`Records`](crate::backend::Records), [`EventLogs`](crate::backend::EventLogs) and [`Topics`](crate::backend::Topics)
/// promise: for tests of implementations.
///
/// The two values stand for two processes: connections to the same store, or clones of one `Arc`. Everything that is
/// written has a key of its own, which begins with `contract/`. Must be called within a tokio runtime.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::{backend::MemoryBackend, testing::backend_contract};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = Arc::new(MemoryBackend::default());
/// backend_contract(Arc::clone(&backend), backend).await.unwrap();
/// # });
/// ```
///
/// # Errors
///
/// The backend is unavailable, or full.
///
/// # Panics
///
/// The backend does something else than it must.
pub async fn backend_contract(one: impl Backend, other: impl Backend) -> Result<(), BackendError> {
    let random = getrandom::u64().map_err(|error| BackendError::Unavailable(error.to_string()))?;
    let pair = Pair { one: Arc::new(one), other: Arc::new(other), prefix: format!("contract/{random:016x}") };
    records::check(&pair).await?;
    check_logs(&pair).await?;
    check_topics(&pair).await
}

/// Two connections to one store.
struct Pair {
    one: Arc<dyn Backend>,
    other: Arc<dyn Backend>,
    /// The prefix of all keys.
    prefix: String,
}

impl Pair {
    /// Returns a key for one check.
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Returns both connections.
    fn both(&self) -> [&Arc<dyn Backend>; 2] {
        [&self.one, &self.other]
    }
}

/// Returns a key that is too long.
fn long_key() -> String {
    let mut key = String::new();
    while key.len() <= 1024 {
        let _: Result<_, _> = write!(key, "contract/{}", key.len());
    }
    key
}

/// Fails unless the future resolves in time.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}"),
    }
}

/// Waits a moment before something is read again.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Fails unless the condition holds in time.
async fn until(what: &str, holds: impl AsyncFn() -> Result<bool, BackendError>) -> Result<(), BackendError> {
    let reached = async {
        while !holds().await? {
            pause().await;
        }
        Ok(())
    };
    soon(what, reached).await
}

/// Checks the contract of [`Topics`](crate::backend::Topics).
async fn check_topics(pair: &Pair) -> Result<(), BackendError> {
    messages_reach_all_subscribers_in_order(pair).await?;
    messages_are_kept_exactly(pair).await?;
    subscriptions_come_and_go(pair).await
}

async fn messages_reach_all_subscribers_in_order(pair: &Pair) -> Result<(), BackendError> {
    let (topic, other) = (pair.key("topic"), pair.key("topic:other"));
    let mut subscriptions = Vec::new();
    for backend in pair.both().into_iter().cycle().take(4) {
        subscriptions.push(backend.subscribe(&topic).await?);
    }
    let mut others = pair.one.subscribe(&other).await?;
    for number in 0..200 {
        pair.one.publish(&topic, format!("one {number}").into_bytes()).await?;
        pair.other.publish(&topic, format!("other {number}").into_bytes()).await?;
    }
    pair.other.publish(&other, b"end".to_vec()).await?;
    for subscription in &mut subscriptions {
        let mut next = [0, 0];
        while next != [200, 200] {
            let message = message(subscription).await;
            let publisher = usize::from(message.starts_with(b"other"));
            let expected = format!("{} {}", ["one", "other"][publisher], next[publisher]);
            assert_eq!(message, expected.as_bytes(), "a message was lost, or the order was changed");
            next[publisher] += 1;
        }
    }
    assert_eq!(message(&mut others).await, b"end", "a message of another topic was received");
    Ok(())
}

async fn messages_are_kept_exactly(pair: &Pair) -> Result<(), BackendError> {
    let topic = pair.key("messages");
    let mut subscription = pair.other.subscribe(&topic).await?;
    for expected in [vec![], (0..=u8::MAX).collect(), vec![7; 1 << 20]] {
        pair.one.publish(&topic, expected.clone()).await?;
        assert!(message(&mut subscription).await == expected, "a message was altered");
    }
    let published = pair.one.publish(&topic, vec![7; (1 << 20) + 1]).await;
    assert_eq!(published, Err(BackendError::Full), "a message is too long");
    let subscribed = pair.one.subscribe(&long_key()).await;
    assert!(matches!(subscribed, Err(BackendError::Full)), "a name is too long");
    Ok(())
}

async fn subscriptions_come_and_go(pair: &Pair) -> Result<(), BackendError> {
    let topic = pair.key("visitors");
    for number in 0..20_u8 {
        let mut visitor = pair.other.subscribe(&topic).await?;
        let mut neighbor = pair.other.subscribe(&topic).await?;
        pair.one.publish(&topic, vec![number]).await?;
        assert_eq!(message(&mut visitor).await, [number]);
        drop(visitor);
        pair.one.publish(&topic, vec![100 + number]).await?;
        assert_eq!(message(&mut neighbor).await, [number]);
        assert_eq!(message(&mut neighbor).await, [100 + number]);
    }
    let mut many = Vec::new();
    for number in 0..500 {
        many.push(pair.one.subscribe(&pair.key(&format!("many/{number}"))).await?);
    }
    for (number, subscription) in many.iter_mut().enumerate() {
        let expected = number.to_string().into_bytes();
        pair.other.publish(&pair.key(&format!("many/{number}")), expected.clone()).await?;
        assert_eq!(message(subscription).await, expected);
    }
    Ok(())
}

/// Returns the next message.
async fn message(subscription: &mut TopicSubscription) -> Vec<u8> {
    match soon("a message does not arrive", subscription.next()).await {
        Some(TopicEvent::Message(message)) => message.to_vec(),
        event => panic!("expected a message, received {event:?}"),
    }
}

/// Bounds that are not reached.
const WIDE: LogBounds = LogBounds { entries: 1000, bytes: 1 << 20, ttl: LONG };

/// Checks the contract of [`EventLogs`](crate::backend::EventLogs).
async fn check_logs(pair: &Pair) -> Result<(), BackendError> {
    entries_are_numbered(pair).await?;
    the_oldest_entries_are_dropped(pair).await?;
    every_append_has_its_own_bounds(pair).await?;
    an_append_takes_effect_at_the_expected_position(pair).await?;
    concurrent_appends_do_not_mix(pair).await?;
    readers_wait_for_entries(pair).await?;
    an_append_without_entries_prolongs_a_log(pair).await?;
    logs_end(pair).await
}

async fn entries_are_numbered(pair: &Pair) -> Result<(), BackendError> {
    let key = pair.key("log");
    assert_eq!(pair.one.read(&key, LogPosition::START, 9).await?, None, "the log does not exist");
    pair.one.set(&key, RecordCondition::Always, Vec::new(), LONG).await?;
    for (after, entries) in [(0, &[&b"one"[..]][..]), (1, &[b"", b"\0\xff\r\n"]), (3, &[b"four"])] {
        append(pair, &key, after, entries.iter().map(|entry| entry.to_vec()).collect(), WIDE).await?;
    }
    for (after, limit, expected) in [
        (0, 9, &["1 one", "2 ", "3 \0\u{fffd}\r\n", "4 four"] as &[&str]),
        (0, 2, &["1 one", "2 "]),
        (0, 0, &[]),
        (2, 1, &["3 \0\u{fffd}\r\n"]),
        (3, 9, &["4 four"]),
        (4, 9, &[]),
        (9, 9, &[]),
    ] {
        let found = pair.other.read(&key, LogPosition::new(after), limit).await?;
        let found = found.expect("nothing was dropped");
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), expected, "{after} {limit}");
    }
    assert!(pair.one.get(&key).await?.is_some(), "a record and a log have the same key");
    let long = pair.one.append(&long_key(), LogPosition::START, vec![vec![]], WIDE).await;
    assert_eq!(long, Err(BackendError::Full), "a key is too long");
    Ok(())
}

async fn the_oldest_entries_are_dropped(pair: &Pair) -> Result<(), BackendError> {
    // The sizes of the entries of each append, the bounds in entries and in bytes, and the first entry that is kept.
    const CASES: [(&[&[usize]], usize, usize, u64); 10] = [
        (&[&[1, 1, 1, 1]], 3, 100, 2),
        (&[&[1, 1], &[1, 1, 1]], 4, 100, 2),
        (&[&[10, 10, 10]], 9, 20, 2),
        (&[&[10], &[10], &[10]], 9, 29, 2),
        (&[&[10], &[10], &[10]], 9, 30, 1),
        (&[&[1], &[500]], 9, 100, 2),
        (&[&[500], &[1]], 9, 100, 2),
        (&[&[500, 1, 2, 97]], 9, 100, 2),
        (&[&[0, 0, 100]], 9, 100, 1),
        (&[&[1, 1]], 0, 0, 2),
    ];
    for (case, (appends, entries, bytes, first)) in CASES.into_iter().enumerate() {
        let key = pair.key(&format!("bounds/{case}"));
        let mut position = 0;
        for sizes in appends {
            let values = sizes.iter().map(|size| vec![b'x'; *size]).collect();
            append(pair, &key, position, values, LogBounds::new(entries, bytes, LONG)).await?;
            position += sizes.len() as u64;
        }
        for after in 0..position {
            assert!(
                positions(pair, &key, after).await?.eq(first.max(after + 1)..=position),
                "case {case}, after {after}"
            );
        }
    }
    Ok(())
}

/// A writer that must keep a long entry raises the bound for it and for the entries that follow.
async fn every_append_has_its_own_bounds(pair: &Pair) -> Result<(), BackendError> {
    const LONG_ENTRY: usize = 2 << 20;
    // The size of each entry, the bound in bytes, and the first entry that is kept.
    const APPENDS: [(usize, usize, u64); 6] = [
        (100, 1 << 20, 1),
        (LONG_ENTRY, (1 << 20) + LONG_ENTRY, 1),
        (1, (1 << 20) + LONG_ENTRY, 1),
        ((1 << 20) - 1, (1 << 20) + LONG_ENTRY, 2),
        (1, usize::MAX, 2),
        (1, 1 << 20, 5),
    ];
    let key = pair.key("own-bounds");
    for (position, (size, bytes, first)) in (1..).zip(APPENDS) {
        append(pair, &key, position - 1, vec![vec![b'x'; size]], LogBounds::new(1000, bytes, LONG)).await?;
        for after in 0..position {
            let found = positions(pair, &key, after).await?;
            assert!(found.eq(first.max(after + 1)..=position), "append {position}, after {after}");
        }
    }
    Ok(())
}

async fn an_append_takes_effect_at_the_expected_position(pair: &Pair) -> Result<(), BackendError> {
    let key = pair.key("expected");
    // The expected position, and the position of the last entry after the attempt to append two.
    for (after, appends, last) in [
        (1, false, 0),
        (0, true, 2),
        (0, false, 2),
        (1, false, 2),
        (3, false, 2),
        (u64::MAX, false, 2),
        (2, true, 4),
        (2, false, 4),
    ] {
        let outcome = pair.one.append(&key, LogPosition::new(after), vec![vec![b'x']; 2], WIDE).await?;
        let last = LogPosition::new(last);
        let expected = if appends { Append::Appended(last) } else { Append::Conflict(last) };
        assert_eq!(outcome, expected, "after {after}");
        let found = pair.other.read(&key, LogPosition::START, 99).await?;
        assert_eq!(found.unwrap_or_default().len() as u64, last.number(), "after {after}");
    }
    pair.one.remove(&key).await?;
    let outcome = pair.other.append(&key, LogPosition::new(4), vec![vec![]], WIDE).await?;
    assert_eq!(outcome, Append::Conflict(LogPosition::START), "the log was deleted");
    Ok(())
}

async fn concurrent_appends_do_not_mix(pair: &Pair) -> Result<(), BackendError> {
    let key = pair.key("writers");
    let mut tasks = JoinSet::new();
    for (writer, backend) in (b'a'..=b'h').zip(pair.both().into_iter().cycle()) {
        let (backend, key) = (Arc::clone(backend), key.clone());
        tasks.spawn(async move {
            let (mut after, mut last) = (LogPosition::START, Vec::new());
            while last.len() < 10 {
                let append = backend.append(&key, after, vec![vec![writer]; 3], WIDE).await?;
                after = append.last();
                if append == Append::Appended(after) {
                    last.push(after);
                }
            }
            Ok::<_, BackendError>((writer, last))
        });
    }
    let mut written = BTreeMap::new();
    while let Some(task) = soon("concurrent changes never succeed", tasks.join_next()).await {
        let (writer, last) = task.expect("a task must not panic")?;
        let of_append = |last: &LogPosition| [last.number() - 2, last.number() - 1, last.number()];
        written.extend(last.iter().flat_map(of_append).map(|position| (position, writer)));
    }
    let found = pair.one.read(&key, LogPosition::START, 1000).await?.expect("nothing was dropped");
    let found: BTreeMap<_, _> = found.iter().map(|entry| (entry.position.number(), entry.value[0])).collect();
    assert_eq!(found, written);
    assert!(found.into_keys().eq(1..=240));
    Ok(())
}

async fn readers_wait_for_entries(pair: &Pair) -> Result<(), BackendError> {
    let key = pair.key("reader");
    soon("a log that does not exist is waited for", pair.one.appended(&key, LogPosition::START)).await?;
    append(pair, &key, 0, vec![b"1".to_vec()], WIDE).await?;
    soon("an entry that exists is waited for", pair.other.appended(&key, LogPosition::START)).await?;
    let (reader, read) = (Arc::clone(&pair.other), key.clone());
    let reader = tokio::spawn(async move {
        let mut after = LogPosition::START;
        while after.number() < 50 {
            reader.appended(&read, after).await?;
            let found = reader.read(&read, after, 9).await?.expect("nothing was dropped");
            after = found.last().map_or(after, |entry| entry.position);
        }
        Ok::<_, BackendError>(())
    });
    for after in 1..50 {
        append(pair, &key, after, vec![b"x".to_vec()], WIDE).await?;
    }
    soon("a reader does not learn of new entries", reader).await.expect("the task must not panic")
}

async fn an_append_without_entries_prolongs_a_log(pair: &Pair) -> Result<(), BackendError> {
    let (key, ttl) = (pair.key("prolonged"), Duration::from_secs(1));
    append(pair, &key, 0, vec![vec![1]], LogBounds::new(9, 99, ttl)).await?;
    append(pair, &key, 1, Vec::new(), WIDE).await?;
    tokio::time::sleep(ttl + ttl / 10).await;
    let found = pair.other.read(&key, LogPosition::START, 9).await?;
    assert_eq!(found.map(|found| found.len()), Some(1), "a log has expired although it was prolonged");
    Ok(())
}

async fn logs_end(pair: &Pair) -> Result<(), BackendError> {
    for does_expire in [false, true] {
        let key = pair.key(if does_expire { "expired" } else { "removed" });
        let ttl = if does_expire { Duration::from_millis(200) } else { LONG };
        let last = append(pair, &key, 0, vec![vec![1]; 3], LogBounds::new(9, 99, ttl)).await?;
        let (reader, read) = (Arc::clone(&pair.other), key.clone());
        let reader = tokio::spawn(async move {
            while reader.read(&read, last, 9).await?.is_some() {
                reader.appended(&read, last).await?;
            }
            Ok::<_, BackendError>(())
        });
        if !does_expire {
            pause().await;
            pair.one.remove(&key).await?;
            assert_eq!(pair.other.read(&key, last, 9).await?, None, "the log was deleted");
            pair.one.remove(&key).await?;
        }
        soon("a reader does not learn that a log has ended", reader).await.expect("the task must not panic")?;
        append(pair, &key, 0, vec![vec![2]], WIDE).await?;
        let found = pair.other.read(&key, LogPosition::START, 9).await?;
        assert_eq!(found.map(|found| found.len()), Some(1));
    }
    Ok(())
}

/// Appends entries to a log that ends at a position.
async fn append(
    pair: &Pair,
    key: &str,
    after: u64,
    entries: Vec<Vec<u8>>,
    bounds: LogBounds,
) -> Result<LogPosition, BackendError> {
    let last = LogPosition::new(after + entries.len() as u64);
    let outcome = pair.one.append(key, LogPosition::new(after), entries, bounds).await?;
    assert_eq!(outcome, Append::Appended(last), "`{key}` ends at {after}");
    Ok(last)
}

/// Returns the positions of the entries after a position, in a log that exists.
async fn positions(pair: &Pair, key: &str, after: u64) -> Result<impl Iterator<Item = u64>, BackendError> {
    let found = pair.other.read(key, LogPosition::new(after), 99).await?.expect("the log exists");
    Ok(found.into_iter().map(|entry| entry.position.number()))
}

fn text(entry: &EventLogEntry) -> String {
    format!("{} {}", entry.position.number(), String::from_utf8_lossy(&entry.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn the_memory_backend_keeps_the_contract() {
        let backend = Arc::new(MemoryBackend::default());
        backend_contract(Arc::clone(&backend), backend).await.unwrap();
    }
}
