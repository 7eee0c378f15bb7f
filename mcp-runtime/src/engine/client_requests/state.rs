//! The state of a request between its rounds, the request that it is bound to, and the keys that seal it.

use std::{collections::HashMap, fmt, str::FromStr};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::{Deserialize, Serialize};

use crate::{error::Fault, jsonrpc::canonical};

/// The state that is passed from a round that ends with questions to the next round of the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestState {
    /// The digests of the questions that the round ends with, by key.
    #[serde(rename = "q")]
    pub(super) asked: HashMap<String, String>,
    /// The questions that were answered in earlier rounds.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) answered: Vec<AnsweredQuestion>,
    /// The number of invalid answers to a question that the round ends with, by key.
    #[serde(rename = "i", default, skip_serializing_if = "HashMap::is_empty")]
    pub(super) rejected: HashMap<String, u32>,
    /// The values of `ctx.once`, as JSON, by key.
    #[serde(rename = "o", default, skip_serializing_if = "HashMap::is_empty")]
    pub(super) once: HashMap<String, String>,
    /// The `traceparent` of the span of the round.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
}

/// A question and the client's response to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AnsweredQuestion {
    #[serde(rename = "k")]
    pub(super) key: String,
    #[serde(rename = "d")]
    pub(super) digest: String,
    /// The response, as JSON.
    #[serde(rename = "r")]
    pub(super) response: String,
}

impl RequestState {
    /// Returns whether the state needs no seal. Without responses and values, its only purpose is to prevent a response
    /// from being used for another question. Servers that share no key can therefore continue each other's calls after
    /// the first round.
    #[cfg(feature = "sealed-state")]
    pub(super) fn is_plain(&self) -> bool {
        self.answered.is_empty() && self.once.is_empty()
    }
}

/// The request that a state belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) principal: Option<Box<str>>,
    pub(crate) method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: Box<str>,
    /// The arguments, as JSON.
    pub(crate) arguments: Box<str>,
}

impl Binding {
    /// Returns a digest of the request. Arguments that differ only in their formatting have the same digest.
    pub(super) fn digest(&self) -> [u8; 32] {
        let text = |part: &str| [&(part.len() as u64).to_le_bytes(), part.as_bytes()].concat();
        digest(&[
            &text(self.principal.as_deref().unwrap_or_default()),
            &text(self.method),
            &text(&self.name),
            &[u8::from(self.principal.is_some())],
            canonical(&self.arguments).as_bytes(),
        ])
    }
}

/// Returns a digest that distinguishes a question from other questions with the same key, in this request and in all
/// other requests.
pub(super) fn question_digest(binding: &[u8; 32], method: &str, params: &str) -> String {
    URL_SAFE_NO_PAD.encode(&digest(&[binding, method.as_bytes(), &[0], params.as_bytes()])[..16])
}

/// Returns a digest of the concatenation of parts.
#[cfg(feature = "sealed-state")]
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    use sha2::Digest as _;

    sha2::Sha256::digest(parts.concat()).into()
}

/// Returns a digest of the concatenation of parts. It depends on random keys and never leaves the process, so a client
/// cannot search for two requests with the same digest.
#[cfg(not(feature = "sealed-state"))]
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    use std::{
        hash::{BuildHasher as _, RandomState},
        sync::LazyLock,
    };

    static KEYS: LazyLock<[RandomState; 4]> = LazyLock::new(|| std::array::from_fn(|_| RandomState::new()));
    let bytes = parts.concat();
    let mut digest = [0; 32];
    for (part, key) in digest.chunks_exact_mut(8).zip(&*KEYS) {
        part.copy_from_slice(&key.hash_one(&bytes).to_le_bytes());
    }
    digest
}

/// The maximum size in bytes of a state, which is sent with every round or kept between rounds.
pub(super) const MAX_STATE_LEN: usize = 1 << 20;

/// Returns the error of a state whose encoding is larger than [`MAX_STATE_LEN`].
pub(super) fn check_size(bytes: usize) -> Result<(), Fault> {
    if bytes <= MAX_STATE_LEN {
        return Ok(());
    }
    let message = format!("the state of the request is too large: {bytes} bytes, the limit is {MAX_STATE_LEN}");
    Err(Fault::internal(message))
}

/// Encodes a state, or what contains one.
pub(super) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|_| Fault::internal("the state of the request cannot be encoded"))
}

/// Returns the error of a state that is invalid, has expired, or belongs to another request. The reason is logged and
/// not sent to the client.
pub(super) fn invalid_state(reason: &'static str) -> Fault {
    tracing::warn!(reason, "rejected a `requestState`");
    Fault::invalid_params("`requestState` is invalid for this request or has expired: retry without it")
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
    #[cfg(feature = "sealed-state")]
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; KEY_LEN];
        crate::random::fill(&mut bytes).then_some(Self(bytes))
    }

    /// Returns an identifier of the key that does not reveal it.
    #[cfg(feature = "sealed-state")]
    pub(crate) fn id(&self) -> [u8; KEY_ID_LEN] {
        let mut id = [0; KEY_ID_LEN];
        id.copy_from_slice(&digest(&[&self.0])[..KEY_ID_LEN]);
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

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey(…)")
    }
}

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
#[cfg(feature = "cluster")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_arguments_have_different_digests_beyond_number_range_and_depth_limits() {
        let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200), "]".repeat(200));
        for (left, right) in [
            ("[18446744073709551616]", "[18446744073709551617]"),
            (r#"{"to":"ada","x":1e999}"#, r#"{"to":"eve","x":1e999}"#),
            (&deep("1"), &deep("2")),
        ] {
            let digest = |arguments: &str| {
                let (principal, name, arguments) = (Some("ada".into()), "delete".into(), arguments.into());
                Binding { principal, method: "tools/call", name, arguments }.digest()
            };
            assert_ne!(digest(left), digest(right), "{left} {right}");
        }
    }

    #[test]
    fn keys_parse_from_hexadecimal_digits_and_from_base64() {
        let key = StateKey::new([0xab; KEY_LEN]);
        for text in ["ab".repeat(KEY_LEN), STANDARD.encode([0xab; KEY_LEN]), URL_SAFE_NO_PAD.encode([0xab; KEY_LEN])] {
            assert_eq!(text.parse::<StateKey>().unwrap(), key, "{text}");
        }
        for text in ["", "ab", &"zz".repeat(KEY_LEN), &"é".repeat(KEY_LEN)] {
            assert_eq!(text.parse::<StateKey>(), Err(StateKeyError), "{text}");
        }
        assert_eq!(format!("{key:?}"), "StateKey(…)");
    }
}
