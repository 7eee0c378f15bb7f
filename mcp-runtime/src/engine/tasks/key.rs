//! Where the records of a task are found.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::{backend::Timestamp, error::Fault, random};

/// The group of the records of all tasks. Their names begin with the hashes of their owners, so the tasks of an owner
/// are listed one after the other, in the order of their creation.
pub(super) const TASKS: &str = "mcp/1/task";

/// The length of the random part of an id.
const RANDOM_LEN: usize = 32;
/// The length of the creation time in an id: milliseconds in hexadecimal, until the year 2527.
const TIME_LEN: usize = 11;
/// The number of bytes of a hash. Finding two owners with the same hash is infeasible.
const HASH_BYTES: usize = 24;

/// The owner and the id of a task, which name its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskKey {
    /// The hash of the owner, so that the keys of a backend do not reveal it.
    owner: String,
    id: String,
    created: Timestamp,
}

impl TaskKey {
    /// Creates the key of a new task: its id consists of 192 random bits and the time, so it cannot be guessed.
    pub(super) fn random(owner: &str, created: Timestamp) -> Result<Self, Fault> {
        let random = random::id().ok_or_else(|| Fault::internal("the server cannot generate random ids"))?;
        Ok(Self { owner: hash(owner), id: id_at(&random, created), created })
    }

    /// Creates the key of a task. Returns `None` if the id is not one of a [`random`](Self::random) key.
    pub(crate) fn new(owner: &str, id: &str) -> Option<Self> {
        Self::of(hash(owner), id)
    }

    fn of(owner: String, id: &str) -> Option<Self> {
        let (random, time) = id.split_at_checked(RANDOM_LEN)?;
        let is_id = time.len() == TIME_LEN
            && random.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let created = Timestamp::from_unix_millis(u64::from_str_radix(time, 16).ok().filter(|_| is_id)?);
        Some(Self { owner, id: id.to_owned(), created })
    }

    /// Decodes the name of a record in the group [`TASKS`].
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (owner, rest) = name.split_once('.')?;
        let (time, random) = rest.split_once('.')?;
        Self::of(owner.to_owned(), &format!("{random}{time}"))
    }

    /// Returns the name of the record in the group [`TASKS`].
    pub(super) fn name(&self) -> String {
        let (random, time) = self.id.split_at(RANDOM_LEN);
        [&self.owner, ".", time, ".", random].concat()
    }

    /// Returns the prefix of the names of all tasks of an owner.
    pub(super) fn prefix(owner: &str) -> String {
        format!("{}.", hash(owner))
    }

    /// Returns the prefix of the names of all tasks of the same owner.
    pub(super) fn owner_prefix(&self) -> String {
        format!("{}.", self.owner)
    }

    /// Returns the key of the record.
    pub(super) fn record(&self) -> String {
        [TASKS, ":", &self.name()].concat()
    }

    /// Returns the key of the result, if it is not part of the record.
    pub(super) fn result(&self) -> String {
        format!("mcp/1/task-result/{}", self.id)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn created(&self) -> Timestamp {
        self.created
    }
}

/// Returns a hash that names an owner or a peer in keys and records.
pub(super) fn hash(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(name)[..HASH_BYTES])
}

fn id_at(random: &str, created: Timestamp) -> String {
    format!("{random}{:0TIME_LEN$x}", created.as_unix_millis())
}

#[cfg(test)]
pub(super) fn test_key(owner: &str, random: char, created: Timestamp) -> TaskKey {
    TaskKey::new(owner, &id_at(&random.to_string().repeat(RANDOM_LEN), created)).expect("the id is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_tasks_have_keys() {
        let created = Timestamp::from_unix_millis(1_764_066_600_000);
        let key = TaskKey::random("ada", created).unwrap();
        let id = key.id().to_owned();
        assert_eq!(TaskKey::new("ada", &id), Some(key.clone()));
        assert_eq!(TaskKey::of_name(&key.name()), Some(key.clone()));
        assert!(key.name().starts_with(&TaskKey::prefix("ada")));
        assert_eq!(key.created(), created);
        let random = "x".repeat(RANDOM_LEN);
        for (id, is_id) in [
            (String::new(), false),
            (id, true),
            (format!("{random}00000000000"), true),
            (format!("{random}0000000000"), false),
            (format!("{random}000000000000"), false),
            (format!("{random}0000000000A"), false),
            (format!("{random}+0000000000"), false),
            (format!("{}:00000000000", &random[1..]), false),
            (format!("{}é00000000000", &random[1..]), false),
            (format!("{}é00000000000", &random[2..]), false),
        ] {
            assert_eq!(TaskKey::new("ada", &id).is_some(), is_id, "{id}");
        }
    }

    #[test]
    fn names_are_sorted_by_creation_time_and_id() {
        let key = |random, millis| test_key("ada", random, Timestamp::from_unix_millis(millis));
        let names = [key('b', 1), key('c', 1), key('a', 2), key('a', 0x10), key('a', 0xff_ffff)].map(|key| key.name());
        assert!(names.is_sorted(), "{names:?}");
    }
}
