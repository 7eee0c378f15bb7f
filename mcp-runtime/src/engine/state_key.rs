//! The keys that seal the state of requests between their rounds.

use std::{fmt, str::FromStr};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};

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
    fn keys_parse_from_hexadecimal_digits_and_from_base64() {
        let key = StateKey::new([0xab; KEY_LEN]);
        for text in ["ab".repeat(KEY_LEN), STANDARD.encode([0xab; KEY_LEN]), URL_SAFE_NO_PAD.encode([0xab; KEY_LEN])] {
            assert_eq!(text.parse::<StateKey>().unwrap(), key, "{text}");
        }
        for text in ["", "ab", &"zz".repeat(KEY_LEN), &"é".repeat(KEY_LEN), &format!("a{}b", "é".repeat(31))] {
            assert_eq!(text.parse::<StateKey>(), Err(StateKeyError), "{text}");
        }
        assert_eq!(format!("{key:?}"), "StateKey(…)");
    }
}
