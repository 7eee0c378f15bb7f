use std::time::Duration;

use mcp_runtime::{BackendError, BackendFuture, Record, RecordCondition, RecordVersion, Records, Timestamp};
use redis::cmd;

use crate::{
    backend::{Redis, milliseconds},
    client::{Call, Repeat},
};

/// The maximum number of records that are read by one command.
const PAGE: usize = 64;

/// The length of the version in front of a value.
const VERSION: usize = size_of::<u64>();

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
            // A random version is new even if the key was deleted, or lost by the server, in the meantime. It also shows
            // that a command that is repeated has already been executed. Without a condition, a repetition could undo
            // the change of somebody else.
            let repeat = if condition == RecordCondition::Always { Repeat::Never } else { Repeat::Safe };
            let version = getrandom::u64().map_err(|error| BackendError::Unavailable(error.to_string()))?;
            let value = [&version.to_be_bytes()[..], &value].concat();
            let call = Call {
                keys: &record.keys,
                arguments: &[&expected(condition), &value, &milliseconds(ttl), record.name.as_bytes(), b""],
                if_repeated: Some((4, b"repeated")),
                repeat,
            };
            match self.client().run(&self.scripts().set, &call, self.client().deadline()).await? {
                1 => Ok(Some(RecordVersion::new(version))),
                0 => Ok(None),
                _ => Err(BackendError::Unavailable("the connection was lost during a change".to_owned())),
            }
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
            let keys = self.keys().group(group);
            let mut found = Vec::new();
            let mut start = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
            while found.len() < limit {
                let count = PAGE.min(limit - found.len());
                let max = count.to_string();
                let call = Call {
                    keys: &keys,
                    arguments: &[start.as_bytes(), max.as_bytes()],
                    if_repeated: None,
                    repeat: Repeat::Safe,
                };
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
            let call = Call { keys: &[expiries], arguments: &[], if_repeated: None, repeat: Repeat::Safe };
            self.client().run(&self.scripts().count, &call, self.client().deadline()).await
        })
    }

    fn now(&self) -> BackendFuture<'_, Timestamp> {
        Box::pin(async move {
            // In a cluster, all processes ask the node of this key, since the clocks of nodes may differ.
            let keys = self.keys().record("time")?.keys;
            let call = Call { keys: &keys, arguments: &[], if_repeated: None, repeat: Repeat::Safe };
            let millis = self.client().run(&self.scripts().time, &call, self.client().deadline()).await?;
            Ok(Timestamp::from_unix_millis(millis))
        })
    }
}

/// Returns what a script compares with the version: `*` for any, nothing for none.
fn expected(condition: RecordCondition) -> Vec<u8> {
    match condition {
        RecordCondition::Always => b"*".to_vec(),
        RecordCondition::Absent => Vec::new(),
        RecordCondition::Version(version) => version.number().to_be_bytes().to_vec(),
    }
}

fn parse(value: Option<Vec<u8>>) -> Option<Record> {
    let value = value?;
    let (version, value) = value.split_first_chunk::<VERSION>()?;
    Some(Record::new(value, RecordVersion::new(u64::from_be_bytes(*version))))
}
