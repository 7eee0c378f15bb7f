//! A backend in a file, which the processes of one machine can share: how much a backend needs.

use std::{
    future::ready,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mcp_runtime::{
    Handle, Revision, Server,
    backend::{
        Append, BackendError, BackendFuture, EventLogEntry, EventLogs, Insertion, LogBounds, LogPosition, Record,
        RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSender, TopicSubscription, Topics,
    },
    resource,
    testing::backend_contract,
    tool,
};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde_json::json;

const SCHEMA: &str = "
    PRAGMA journal_mode = wal;
    PRAGMA synchronous = off;
    PRAGMA busy_timeout = 1500;
    CREATE TABLE IF NOT EXISTS records (
        key TEXT PRIMARY KEY, folder TEXT, name TEXT, account TEXT, version INTEGER, value BLOB, expires INTEGER);
    CREATE INDEX IF NOT EXISTS by_folder ON records (folder, name);
    CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires);
    CREATE TABLE IF NOT EXISTS logs (key TEXT PRIMARY KEY, last INTEGER, expires INTEGER);
    CREATE TABLE IF NOT EXISTS entries (log TEXT, position INTEGER, value BLOB, PRIMARY KEY (log, position));
    CREATE TRIGGER IF NOT EXISTS log_removed AFTER DELETE ON logs
        BEGIN DELETE FROM entries WHERE log = OLD.key; END;
    CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, value BLOB, expires INTEGER);
    CREATE TABLE IF NOT EXISTS versions (last INTEGER);
    INSERT INTO versions SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM versions);";

/// How often a process looks for messages and entries.
const INTERVAL: Duration = Duration::from_millis(10);
/// The time for which messages are kept for processes that have not read them.
const MESSAGE_TTL: Duration = Duration::from_secs(60);
const MAX_KEY: usize = 1024;
const MAX_ACCOUNT: usize = 64;
const MAX_MESSAGE: usize = 1 << 20;

#[derive(Debug)]
struct Sqlite {
    connection: Mutex<Connection>,
    subscribers: Mutex<Subscribers>,
}

#[derive(Debug, Default)]
struct Subscribers {
    /// The last message that was read.
    last: i64,
    senders: Vec<(String, TopicSender)>,
}

impl Sqlite {
    /// Opens the file, and reads messages until the value is dropped.
    fn open(path: &Path) -> Arc<Self> {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let sqlite = Arc::new(Self { connection: Mutex::new(connection), subscribers: Mutex::default() });
        let weak = Arc::downgrade(&sqlite);
        tokio::spawn(async move {
            while let Some(sqlite) = weak.upgrade() {
                sqlite.deliver();
                drop(sqlite);
                tokio::time::sleep(INTERVAL).await;
            }
        });
        sqlite
    }

    /// Runs a transaction, in which nothing that has expired exists.
    fn run<T: Send + 'static>(
        &self,
        key: &str,
        change: impl FnOnce(&Transaction<'_>, i64) -> rusqlite::Result<T>,
    ) -> BackendFuture<'_, T> {
        if key.len() > MAX_KEY {
            return Box::pin(ready(Err(BackendError::Full)));
        }
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let now = time(Duration::ZERO);
            for table in ["records", "logs", "messages"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE expires <= ?"), [now])?;
            }
            let result = change(&transaction, now)?;
            transaction.commit()?;
            Ok(result)
        };
        let result = run().map_err(|error: rusqlite::Error| BackendError::Unavailable(error.to_string()));
        Box::pin(ready(result))
    }

    /// Passes new messages to their subscribers.
    fn deliver(&self) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.senders.retain(|(_, sender)| !sender.is_closed());
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new =
            connection.prepare_cached("SELECT id, topic, value FROM messages WHERE id > ? ORDER BY id").unwrap();
        let new = new.query_map([subscribers.last], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let new: Vec<(i64, String, Vec<u8>)> = new.unwrap().filter_map(Result::ok).collect();
        for (id, topic, value) in new {
            subscribers.last = id;
            let value: Arc<[u8]> = value.into();
            let of_topic = subscribers.senders.iter().filter(|(name, _)| *name == topic);
            of_topic.for_each(|(_, sender)| sender.send(Arc::clone(&value)));
        }
    }
}

/// Returns the time in milliseconds after a duration.
fn time(after: Duration) -> i64 {
    i64::try_from(Timestamp::now().saturating_add(after).as_unix_millis()).unwrap_or(i64::MAX)
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or_default()
}

fn record(value: Vec<u8>, version: i64) -> Record {
    Record::new(value, RecordVersion::new(number(version)))
}

fn version(transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<Option<RecordVersion>> {
    let version = transaction.query_row("SELECT version FROM records WHERE key = ?", [key], |row| row.get(0));
    Ok(version.optional()?.map(|version: i64| RecordVersion::new(number(version))))
}

/// Writes a record, whose account stays if it exists.
fn write(
    transaction: &Transaction<'_>,
    key: &str,
    value: &[u8],
    expires: i64,
    account: &str,
) -> rusqlite::Result<RecordVersion> {
    let (folder, name) = key.split_once(':').unzip();
    let version: i64 =
        transaction.query_row("UPDATE versions SET last = last + 1 RETURNING last", [], |row| row.get(0))?;
    transaction.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
            SET version = excluded.version, value = excluded.value, expires = excluded.expires",
        params![key, folder, name, account, version, value, expires],
    )?;
    Ok(RecordVersion::new(number(version)))
}

fn count(transaction: &Transaction<'_>, group: &str, account: Option<&str>) -> rusqlite::Result<usize> {
    let count = "SELECT count(*) FROM records WHERE folder = ?1 AND (?2 IS NULL OR account = ?2)";
    transaction
        .query_row(count, params![group, account], |row| row.get::<_, i64>(0))
        .map(|count| number(count) as usize)
}

impl Records for Sqlite {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.run(key, |transaction, _| {
            let get = "SELECT value, version FROM records WHERE key = ?";
            transaction.query_row(get, [key], |row| Ok(record(row.get(0)?, row.get(1)?))).optional()
        })
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.run(key, |transaction, _| {
            if !condition.holds(version(transaction, key)?) {
                return Ok(None);
            }
            write(transaction, key, &value, time(ttl), "").map(Some)
        })
    }

    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion> {
        if quota.account.len() > MAX_ACCOUNT {
            return Box::pin(ready(Err(BackendError::Full)));
        }
        let key = format!("{group}:{name}");
        self.run(&key, |transaction, _| {
            if version(transaction, &key)?.is_some() {
                return Ok(Insertion::Exists);
            }
            let account = Some(quota.account).filter(|account| !account.is_empty());
            let of_account = account.map_or(Ok(0), |account| count(transaction, group, Some(account)))?;
            let in_total = count(transaction, group, None)?;
            if (account.is_some() && of_account >= quota.per_account) || in_total >= quota.total {
                return Ok(Insertion::Full { of_account, in_total });
            }
            write(transaction, &key, &value, time(ttl), quota.account).map(Insertion::Inserted)
        })
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.run(key, |transaction, _| {
            let holds = condition.holds(version(transaction, key)?);
            Ok(holds && transaction.execute("DELETE FROM records WHERE key = ?", [key])? == 1)
        })
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.run(group, |transaction, _| {
            let mut list = transaction.prepare_cached(
                "SELECT name, value, version FROM records
                    WHERE folder = ?1 AND (?2 IS NULL OR name > ?2) ORDER BY name LIMIT ?3",
            )?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, record(row.get(1)?, row.get(2)?)));
            list.query_map(params![group, after, integer(limit as u64)], row)?.collect()
        })
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.run(group, |transaction, _| count(transaction, group, None))
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        Box::pin(ready(Ok(Timestamp::now())))
    }
}

/// Returns the position of the last entry of a log.
fn last(transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<Option<LogPosition>> {
    let last = transaction.query_row("SELECT last FROM logs WHERE key = ?", [key], |row| row.get(0)).optional()?;
    Ok(last.map(|last: i64| LogPosition::new(number(last))))
}

/// Drops the oldest entries beyond the bounds, but never the newest one.
fn trim(transaction: &Transaction<'_>, key: &str, bounds: LogBounds) -> rusqlite::Result<()> {
    let mut sizes = transaction
        .prepare_cached("SELECT position, length(value) FROM entries WHERE log = ? ORDER BY position DESC")?;
    let sizes = sizes.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut first, mut bytes) = (0, 0);
    for (index, size) in sizes.enumerate() {
        let (position, length): (i64, i64) = size?;
        bytes += number(length) as usize;
        if index > 0 && (index >= bounds.entries || bytes > bounds.bytes) {
            break;
        }
        first = position;
    }
    transaction.execute("DELETE FROM entries WHERE log = ? AND position < ?", params![key, first]).map(drop)
}

impl EventLogs for Sqlite {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        self.run(key, |transaction, _| {
            let last = last(transaction, key)?.unwrap_or_default();
            if last != after {
                return Ok(Append::Conflict(last));
            }
            let mut position = integer(last.number());
            for entry in &entries {
                position += 1;
                transaction.execute("INSERT INTO entries VALUES (?, ?, ?)", params![key, position, entry])?;
            }
            let replace = "INSERT OR REPLACE INTO logs VALUES (?, ?, ?)";
            transaction.execute(replace, params![key, position, time(bounds.ttl)])?;
            trim(transaction, key, bounds)?;
            Ok(Append::Appended(LogPosition::new(number(position))))
        })
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
        self.run(key, |transaction, _| {
            if last(transaction, key)?.is_none() {
                return Ok(None);
            }
            let mut read = transaction.prepare_cached(
                "SELECT position, value FROM entries WHERE log = ? AND position > ? ORDER BY position LIMIT ?",
            )?;
            let entry = |row: &rusqlite::Row<'_>| {
                Ok(EventLogEntry::new(LogPosition::new(number(row.get(0)?)), row.get::<_, Vec<u8>>(1)?))
            };
            let after = integer(after.number());
            read.query_map(params![key, after, integer(limit as u64)], entry)?.collect::<Result<_, _>>().map(Some)
        })
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            while self.run(key, |transaction, _| last(transaction, key)).await?.is_some_and(|last| last <= after) {
                tokio::time::sleep(INTERVAL).await;
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.run(key, |transaction, _| transaction.execute("DELETE FROM logs WHERE key = ?", [key]).map(drop))
    }
}

impl Topics for Sqlite {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        if message.len() > MAX_MESSAGE {
            return Box::pin(ready(Err(BackendError::Full)));
        }
        self.run(topic, |transaction, _| {
            let insert = "INSERT INTO messages (topic, value, expires) VALUES (?, ?, ?)";
            transaction.execute(insert, params![topic, message, time(MESSAGE_TTL)]).map(drop)
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        if topic.len() > MAX_KEY {
            return Box::pin(ready(Err(BackendError::Full)));
        }
        // Earlier messages are not for this subscriber.
        self.deliver();
        let (sender, subscription) = TopicSubscription::new();
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.senders.push((topic.to_owned(), sender));
        Box::pin(ready(Ok(subscription)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_in_a_file_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    backend_contract(Sqlite::open(&path), Sqlite::open(&path)).await.unwrap();
}

/// A resource that changes.
#[resource("test://item/{id}")]
fn item(id: u32) -> String {
    id.to_string()
}

/// Announces a change.
#[tool]
async fn update(handle: &Handle) {
    handle.resource_updated("test://item/1");
}

/// Two servers know of each other only what the file contains.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_file_hear_of_each_others_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let servers = [(); 2].map(|()| {
        let server = Server::empty("files", "1.0.0").with::<item>().with::<update>();
        server.backend(Sqlite::open(&path)).build().unwrap()
    });
    let [mut writer, mut reader] = servers.each_ref().map(|server| server.test_client(Revision::V2025_11_25));
    reader.request("resources/subscribe", json!({"uri": "test://item/1"})).await.unwrap();
    let heard = async {
        // A server hears of changes once it has subscribed to them.
        while reader.notifications().is_empty() {
            writer.call("update", json!({})).await.unwrap();
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), heard).await.unwrap();
}
