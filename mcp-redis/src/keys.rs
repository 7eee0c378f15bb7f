//! The names of keys and channels.

use mcp_runtime::backend::BackendError;

/// The maximum length in bytes of a key of the runtime.
const MAX_KEY: usize = 1024;

/// Forms keys and channels, which all begin with the same prefix.
///
/// The part of a key in braces determines its slot in a cluster: everything that one script touches is in the same slot.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// The prefix of channels. Unlike keys, channels are shared by all databases of a server.
    channels: String,
}

/// The keys of a record.
pub(crate) struct RecordKeys<'a> {
    /// The record, followed by the names and the times of expiry of its group.
    pub(crate) keys: Vec<String>,
    pub(crate) name: &'a str,
}

impl Keys {
    pub(crate) fn new(prefix: &str, database: i64) -> Self {
        Self { prefix: prefix.to_owned(), channels: format!("{prefix}{database}/") }
    }

    pub(crate) fn record<'a>(&self, key: &'a str) -> Result<RecordKeys<'a>, BackendError> {
        check(key)?;
        let Some((group, name)) = key.split_once(':') else {
            return Ok(RecordKeys { keys: vec![format!("{}{{r:{key}}}", self.prefix)], name: "" });
        };
        let [names, expiries] = self.group(group);
        Ok(RecordKeys { keys: vec![format!("{names}:{name}"), names, expiries], name })
    }

    /// Returns the keys of the names, and of the times of expiry, of the records of a group.
    pub(crate) fn group(&self, group: &str) -> [String; 2] {
        [format!("{}{{g:{group}}}", self.prefix), format!("{}{{g:{group}}}expiry", self.prefix)]
    }

    pub(crate) fn log(&self, key: &str) -> Result<String, BackendError> {
        check(key)?;
        Ok(format!("{}{{l:{key}}}", self.prefix))
    }

    pub(crate) fn topic_channel(&self, topic: &str) -> Result<String, BackendError> {
        check(topic)?;
        Ok(format!("{}topic:{topic}", self.channels))
    }

    pub(crate) fn log_channel(&self, key: &str) -> String {
        format!("{}log:{key}", self.channels)
    }

    /// Returns the channel on which a process sends messages to itself.
    pub(crate) fn heartbeat_channel(&self, process: u64) -> String {
        format!("{}heartbeat:{process:016x}", self.channels)
    }
}

fn check(key: &str) -> Result<(), BackendError> {
    if key.len() > MAX_KEY { Err(BackendError::Full) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_group_share_a_slot_and_never_collide() {
        let keys = Keys::new("app:", 2);
        for (key, expected) in [
            ("a/b", &["app:{r:a/b}"] as &[&str]),
            ("a:b:c", &["app:{g:a}:b:c", "app:{g:a}", "app:{g:a}expiry"]),
            ("a:", &["app:{g:a}:", "app:{g:a}", "app:{g:a}expiry"]),
            (":x", &["app:{g:}:x", "app:{g:}", "app:{g:}expiry"]),
            ("}:x", &["app:{g:}}:x", "app:{g:}}", "app:{g:}}expiry"]),
        ] {
            assert_eq!(keys.record(key).unwrap().keys, expected);
        }
        assert_eq!(keys.log("a").unwrap(), "app:{l:a}");
        assert_eq!(keys.topic_channel("a").unwrap(), "app:2/topic:a");
        assert_eq!(keys.log_channel("a"), "app:2/log:a");
        assert_eq!(keys.heartbeat_channel(10), "app:2/heartbeat:000000000000000a");
        for (length, error) in [(MAX_KEY, None), (MAX_KEY + 1, Some(BackendError::Full))] {
            let key = "x".repeat(length);
            assert_eq!(keys.record(&key).err(), error);
            assert_eq!(keys.log(&key).err(), error);
            assert_eq!(keys.topic_channel(&key).err(), error);
        }
    }
}
