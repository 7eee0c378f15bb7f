use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mcp_runtime::backend::{
    BackendError, BackendFuture, Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records, Timestamp,
};
use redis::cmd;

use crate::{
    backend::{Redis, milliseconds},
    client::{Call, Repeat},
};

/// The maximum number of records that are read by one command.
const PAGE: usize = 64;

/// The length of the version, with which each record begins. The length of the account, the account and the value follow.
const VERSION: usize = size_of::<u64>();

/// The maximum length of an account in bytes.
const MAX_ACCOUNT: usize = 64;

impl Records for Redis {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        Box::pin(async move {
            let keys = self.keys().record(key)?.keys;
            let value = self.client().read(cmd("GET").arg(&keys[0]), self.client().deadline()).await?;
            Ok(parse(value))
        })
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        Box::pin(async move {
            let record = self.keys().record(key)?;
            // Without a condition, a repetition could undo another writer's change.
            let repeat = if condition == RecordCondition::Always { Repeat::Never } else { Repeat::Safe };
            let version = new_version()?;
            let value = stored(version, "", &value)?;
            if let ([key], RecordCondition::Absent) = (record.keys.as_slice(), condition) {
                return self.create(key, value, ttl, version).await;
            }
            let call = Call {
                keys: &record.keys,
                arguments: &[&expected(condition), &value, &milliseconds(ttl), record.name.as_bytes(), b""],
                if_repeated: Some((4, b"repeated")),
                repeat,
            };
            match self.client().run(&self.scripts().set, &call, self.client().deadline()).await? {
                1 => Ok(Some(version)),
                0 => Ok(None),
                _ => Err(changed_meanwhile()),
            }
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
        Box::pin(async move {
            let key = [group, ":", name].concat();
            let record = self.keys().record(&key)?;
            let version = new_version()?;
            let value = stored(version, quota.account, &value)?;
            let [per_account, total] = [quota.per_account, quota.total].map(|limit| limit.to_string());
            let (account, ttl, deadline) = (quota.account.as_bytes(), milliseconds(ttl), self.client().deadline());
            let arguments = [&value, account, &ttl, name.as_bytes(), per_account.as_bytes(), total.as_bytes()];
            let call = Call::safe(&record.keys, &arguments);
            let (outcome, of_account, in_total): (u8, usize, usize) =
                self.client().run(&self.scripts().insert, &call, deadline).await?;
            Ok(match outcome {
                1 => Insertion::Inserted(version),
                0 => Insertion::Exists,
                _ => Insertion::Full { of_account, in_total },
            })
        })
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        Box::pin(async move {
            let record = self.keys().record(key)?;
            let call = Call {
                keys: &record.keys,
                arguments: &[&expected(condition), record.name.as_bytes()],
                if_repeated: None,
                repeat: Repeat::Never,
            };
            self.client().run(&self.scripts().delete, &call, self.client().deadline()).await
        })
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        Box::pin(async move {
            let deadline = self.client().deadline();
            let [names, expiries] = self.keys().group(group);
            let keys = [names.clone(), names, expiries];
            let mut found = Vec::new();
            let mut start = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
            while found.len() < limit {
                let count = PAGE.min(limit - found.len());
                let max = count.to_string();
                let arguments = [start.as_bytes(), max.as_bytes()];
                let call = Call::safe(&keys, &arguments);
                let names: Vec<String> = self.client().run(&self.scripts().names, &call, deadline).await?;
                let Some(last) = names.last() else { break };
                start = format!("({last}");
                let is_last = names.len() < count;
                let records: Vec<String> = names.iter().map(|name| format!("{}:{name}", keys[0])).collect();
                let values: Vec<Option<Vec<u8>>> = self.client().read(cmd("MGET").arg(records), deadline).await?;
                found.extend(names.into_iter().zip(values).filter_map(|(name, value)| Some((name, parse(value)?))));
                if is_last {
                    break;
                }
            }
            Ok(found)
        })
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        Box::pin(async move {
            let [_, expiries] = self.keys().group(group);
            self.client().run(&self.scripts().count, &Call::safe(&[expiries], &[]), self.client().deadline()).await
        })
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        Box::pin(async move {
            // In a cluster, all processes ask the node of this key, since the clocks of nodes may differ.
            let keys = self.keys().record("time")?.keys;
            let deadline = self.client().deadline();
            let millis = self.client().run(&self.scripts().time, &Call::safe(&keys, &[]), deadline).await?;
            Ok(Timestamp::from_unix_millis(millis))
        })
    }
}

impl Redis {
    /// Writes a record without a group that does not exist, with one command.
    async fn create(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Duration,
        version: RecordVersion,
    ) -> Result<Option<RecordVersion>, BackendError> {
        let is_repeated = AtomicBool::new(false);
        let encode = |repeated| {
            is_repeated.store(repeated, Ordering::Relaxed);
            let mut command = cmd("SET");
            command.arg(key).arg(&value).arg("NX").arg("GET").arg("PX").arg(milliseconds(ttl));
            command
        };
        let deadline = self.client().deadline();
        match self.client().write::<Option<Vec<u8>>>(encode, Repeat::Safe, value.len(), deadline).await? {
            None => Ok(Some(version)),
            // The version is random, so a record that has it was written by this command, whose response was lost.
            Some(found) if found.get(..VERSION) == value.get(..VERSION) => Ok(Some(version)),
            // If the command has been executed before, the record may have been changed since.
            Some(_) if is_repeated.into_inner() => Err(changed_meanwhile()),
            Some(_) => Ok(None),
        }
    }
}

fn changed_meanwhile() -> BackendError {
    BackendError::Unavailable("the connection was lost during a change".to_owned())
}

/// Returns the text that a script compares with the version: `*` for any, nothing for none.
fn expected(condition: RecordCondition) -> Vec<u8> {
    match condition {
        RecordCondition::Always => b"*".to_vec(),
        RecordCondition::Absent => Vec::new(),
        RecordCondition::Version(version) => version.number().to_be_bytes().to_vec(),
    }
}

/// Returns a random version, which is new even if the key was deleted, or lost by the server, in the meantime. It also
/// shows that a command that is repeated has already been executed.
fn new_version() -> Result<RecordVersion, BackendError> {
    getrandom::u64().map(RecordVersion::new).map_err(|error| BackendError::Unavailable(error.to_string()))
}

/// Returns the stored form of a record.
fn stored(version: RecordVersion, account: &str, value: &[u8]) -> Result<Vec<u8>, BackendError> {
    let length = u8::try_from(account.len()).ok().filter(|_| account.len() <= MAX_ACCOUNT).ok_or(BackendError::Full)?;
    Ok([&version.number().to_be_bytes()[..], &[length], account.as_bytes(), value].concat())
}

fn parse(stored: Option<Vec<u8>>) -> Option<Record> {
    let stored = stored?;
    let (version, rest) = stored.split_first_chunk::<VERSION>()?;
    let (length, rest) = rest.split_first()?;
    let value = rest.get(usize::from(*length)..)?;
    Some(Record::new(value, RecordVersion::new(u64::from_be_bytes(*version))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another program may have written the key.
    #[test]
    fn a_value_that_is_no_record_is_absent() {
        let version = RecordVersion::new(7);
        let complete = stored(version, "ada", b"x").unwrap();
        assert_eq!(parse(Some(complete.clone())), Some(Record::new(&b"x"[..], version)));
        for length in [0, VERSION - 1, VERSION, complete.len() - 2] {
            assert!(parse(Some(complete[..length].to_vec())).is_none(), "{length}");
        }
    }
}
