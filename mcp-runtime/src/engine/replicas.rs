//! The processes that share a backend, as the engine sees them. `cluster` implements the interface; without it, every
//! session and task belongs to this process. The keys that they share are those of a server without replicas, too.

use std::{fmt, num::NonZeroU32, pin::Pin, str::FromStr, sync::Weak, time::Duration};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::{Deserialize, Serialize};

use crate::{
    backend::BackendFuture, error::Fault, handler::ClientProgress, model::Level, registry::ListSet, stdx::debug,
};

/// This process among the processes that share a backend.
pub(crate) trait Replicas: fmt::Debug + Send + Sync {
    /// Starts the exchange of shared state with the other processes, unless it has been started or there is no runtime.
    fn start(&self);

    /// Checks that no other server uses the backend.
    ///
    /// # Errors
    ///
    /// Returns a message that names both servers. A backend that does not respond is not an error.
    fn check_name(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;

    /// Returns the slot of this replica. Takes one first if it has none, which must happen inside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails or does not respond in time.
    fn join(&self) -> BackendFuture<'_, Slot>;

    /// Returns the slot of this replica. Returns `None` before it has [joined](Self::join), and after it has lost its
    /// slot, until it has a new one.
    fn slot(&self) -> Option<Slot>;

    /// Returns an id that no replica has used before, from which every replica finds the [slot](Slot::of_id) of this
    /// replica. Returns `None` if this replica has no slot.
    fn new_id(&self) -> Option<u64>;

    /// Returns whether the replica that had this slot when it was last heard of still has it. A replica that was killed
    /// has it for as long as the lease.
    fn is_alive(&self, slot: Slot) -> BackendFuture<'_, bool>;

    /// Returns whether a replica without a slot is gone. When this replica has lost its own, until the time of a lease after it
    /// took another one, the others may have lost theirs in the same outage, and take new ones.
    fn knows_who_is_gone(&self) -> bool;

    /// Returns the time after which the slot of a replica expires that does not renew it.
    fn lease(&self) -> Duration;

    /// Returns the clock by which the replicas compare times. It is exact once the replica has [joined](Self::join).
    #[cfg(feature = "backend")]
    fn clock(&self) -> &std::sync::Arc<crate::backend::BackendClock>;

    /// Adds a handler of the messages of a kind, for as long as it exists. A kind contains no spaces.
    fn add_handler(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>);

    /// Sends a message of less than 1 MiB to all replicas, including this replica.
    fn announce<'a>(&'a self, kind: &'a str, payload: &'a [u8]) -> BackendFuture<'a, ()>;

    /// Announces that these lists have changed.
    fn lists_changed(&self, lists: ListSet);

    /// Announces that a resource has changed.
    fn resource_updated(&self, uri: &str);

    /// Announces an encoded log message. Returns `false` if it was dropped because too many are waiting.
    fn log(&self, level: Level, message: &[u8]) -> bool;

    /// Waits until the changes that this process has made are announced, for at most half a second.
    fn flush(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns a future that completes when this process has left the others, which it does when nothing uses this anymore.
    fn left(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns the keys that seal the state of requests. Returns `None` if the server has keys of its own.
    fn keys(&self) -> Option<&dyn SharedKeys>;

    /// Returns whether the client of a session reads messages that belong to no request, at any replica.
    fn is_read<'a>(&'a self, session: &'a str) -> BackendFuture<'a, bool>;

    /// Returns what is wrong with the backend, or `None` if nothing is.
    fn problem(&self) -> Pin<Box<dyn Future<Output = Option<&'static str>> + Send + '_>>;
}

/// Receives the messages of one kind that other replicas, or this one, send and announce.
///
/// The methods must not block: other messages are waiting. They are called inside of a tokio runtime, so they can spawn
/// tasks.
pub(crate) trait ReplicaHandler: Send + Sync {
    /// Handles a message.
    fn message(&self, payload: &[u8]);

    /// Handles that messages may have been lost: everything that was read from the backend and is kept until a message
    /// announces a change is stale.
    fn missed(&self);

    /// Handles that this process did not run for some time, so that messages which were sent before may not have been
    /// handled yet. They were not lost.
    fn paused(&self) {}

    /// Handles that the other replicas consider the replica that had this slot gone, and its calls lost. The replica
    /// gets a new slot.
    fn lost(&self, slot: Slot) {
        let _ = slot;
    }
}

/// The keys that all processes of a service share.
pub(crate) trait SharedKeys: Send + Sync {
    /// Returns whether there is a key that seals.
    fn is_ready(&self) -> bool;

    /// Waits until there is a key that seals, for as long as a response of the backend may take. Does not wait for a
    /// backend that has failed.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns the key that seals.
    ///
    /// # Errors
    ///
    /// Fails if the backend has never responded.
    fn sealing(&self) -> Result<StateKey, Fault>;

    /// Returns the key with an id, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the key may be newer than the keys that were read last. The keys are then read again, and the client
    /// may retry.
    fn find(&self, id: [u8; KEY_ID_LEN]) -> Result<Option<StateKey>, Fault>;
}

pub(super) const KEY_LEN: usize = 32;
pub(crate) const KEY_ID_LEN: usize = 4;

/// A key that seals the state of requests between their rounds: 32 bytes, written as 64 hexadecimal digits or as
/// base64.
///
/// ```
/// use mcp_runtime::StateKey;
///
/// let key: StateKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".parse().unwrap();
/// assert!("too short".parse::<StateKey>().is_err());
/// # drop(key);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StateKey([u8; KEY_LEN]);

impl StateKey {
    /// Creates a key from its bytes.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// Creates a random key, or returns `None` if the operating system provides no randomness.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; KEY_LEN];
        crate::random::fill(&mut bytes).then_some(Self(bytes))
    }

    /// Returns an identifier of the key that does not reveal it.
    #[cfg(feature = "sealed-state")]
    pub(crate) fn id(&self) -> [u8; KEY_ID_LEN] {
        let mut id = [0; KEY_ID_LEN];
        id.copy_from_slice(&<sha2::Sha256 as sha2::Digest>::digest(self.0)[..KEY_ID_LEN]);
        id
    }

    #[cfg(feature = "sealed-state")]
    pub(super) fn cipher(&self) -> chacha20poly1305::XChaCha20Poly1305 {
        chacha20poly1305::KeyInit::new(&self.0.into())
    }
}

impl FromStr for StateKey {
    type Err = StateKeyError;

    fn from_str(text: &str) -> Result<Self, StateKeyError> {
        let text = text.trim();
        let bytes = if text.len() == 2 * KEY_LEN { from_hex(text) } else { None };
        let bytes = bytes.or_else(|| STANDARD.decode(text).ok()).or_else(|| URL_SAFE_NO_PAD.decode(text).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(StateKeyError)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    text.is_ascii().then_some(())?;
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

debug!(StateKey, self);

/// The error that is returned when parsing a [`StateKey`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateKeyError;

impl fmt::Display for StateKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "invalid key, expected 32 bytes as 64 hexadecimal digits or as base64\n\
             help: generate one with `openssl rand -hex 32`",
        )
    }
}

impl std::error::Error for StateKeyError {}

/// Writes keys as base64, for the backend. A [`StateKey`] itself is not serializable, so that it is not logged by
/// accident.
pub(crate) mod base64_key {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::StateKey;

    pub(crate) fn serialize<S: Serializer>(key: &StateKey, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&URL_SAFE_NO_PAD.encode(key.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StateKey, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A client's response to a request from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputResponse {
    /// The result, as JSON.
    Result(String),
    /// The message of the error that the client responded with.
    Error(String),
}

/// The number of a process among the processes that share a backend, between 1 and 2^20 - 1. It is random, so the slot
/// of a process that is gone is unlikely to be taken by another process soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    pub(crate) const BITS: u32 = 20;
    /// The number of bits of an id below the bits of its slot.
    const SHIFT: u32 = 32;

    /// Returns an id that no other replica uses: the slot and a number that the replica uses once. It is less than 2^52,
    /// so every client can represent it as a number.
    pub(crate) fn id(self, number: u32) -> u64 {
        u64::from(self.0.get()) << Self::SHIFT | u64::from(number)
    }

    /// Returns the slot of the replica that an [`id`](Self::id) belongs to. Returns `None` for a number that is no such
    /// id.
    pub(crate) fn of_id(id: u64) -> Option<Self> {
        u32::try_from(id >> Self::SHIFT).ok().and_then(Self::new)
    }

    pub(crate) fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|number| number.get() >> Self::BITS == 0).map(Self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message of a client that concerns other replicas.
#[derive(Debug)]
pub(crate) enum SessionMessage {
    /// The client has sent `notifications/initialized`, which the replica that opened the session may be waiting for.
    Initialized,
    Change(SessionChange),
    /// The response to a request of another replica.
    Answer(u64, InputResponse),
    /// Progress of a request of another replica.
    Progress(u64, ClientProgress),
    /// The cancellation of a request that does not run on this replica. Contains its id as JSON.
    Cancel(String),
}

/// A change of a session by its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    Level(Level),
    Subscribed(String),
    Unsubscribed(String),
    RootsChanged,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_their_slot() {
        for number in [1, 2, (1 << 20) - 1] {
            let slot = Slot::new(number).unwrap();
            for within in [0, 1, u32::MAX] {
                assert_eq!(Slot::of_id(slot.id(within)), Some(slot));
                assert!(slot.id(within) < 1 << 53);
            }
        }
        for id in [0, 1, u64::from(u32::MAX), 1 << 52, u64::MAX] {
            assert_eq!(Slot::of_id(id), None, "{id}");
        }
    }

    #[test]
    fn keys_parse_from_hexadecimal_digits_and_from_base64() {
        let key = StateKey::new([0xab; KEY_LEN]);
        let hexadecimal = "ab".repeat(KEY_LEN);
        // A file ends with a line break.
        let line = format!(" {hexadecimal}\n");
        let base64 = [STANDARD.encode([0xab; KEY_LEN]), URL_SAFE_NO_PAD.encode([0xab; KEY_LEN])];
        for text in [hexadecimal, line].into_iter().chain(base64) {
            assert_eq!(text.parse::<StateKey>().unwrap(), key, "{text}");
        }
        for text in ["", "ab", &"zz".repeat(KEY_LEN), &"é".repeat(KEY_LEN), &format!("a{}b", "é".repeat(31))] {
            assert_eq!(text.parse::<StateKey>(), Err(StateKeyError), "{text}");
        }
        assert_eq!(format!("{key:?}"), "StateKey { .. }");
    }
}
