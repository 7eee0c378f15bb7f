//! The state that a client carries from round to round, and cannot read or change.
//!
//! It is sealed with XChaCha20-Poly1305, which also binds it to what it belongs to: the principal, the method, the name and the arguments
//! of the request. A state of a question that depends on nothing but itself is not secret, see [`State::is_plain`].
//!
//! See [Server requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow).

use std::{
    collections::HashMap,
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{error::Fault, jsonrpc::canonical, random};

const KEY: usize = 32;
const NONCE: usize = 24;
const KEY_ID: usize = 4;
/// The most bytes of a state, which comes back with every round.
const MOST: usize = 1 << 20;
/// What a sealed state begins with.
const SEALED: u8 = 1;
/// What a state that nobody has to trust begins with.
const PLAIN: u8 = 0;

/// A key that seals the state of requests between their rounds: 32 bytes, written as 64 hexadecimal digits or as base64.
///
/// ```
/// use mcp_runtime::StateKey;
///
/// let key: StateKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".parse().unwrap();
/// assert!("too short".parse::<StateKey>().is_err());
/// # drop(key);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StateKey([u8; KEY]);

impl StateKey {
    /// Takes the bytes of a key.
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self(bytes)
    }

    fn random() -> Result<Self, Fault> {
        let mut bytes = [0; KEY];
        fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// What tells a key from others without giving it away.
    fn id(&self) -> [u8; KEY_ID] {
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&Sha256::digest(self.0)[..KEY_ID]);
        id
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }
}

impl FromStr for StateKey {
    type Err = StateKeyError;

    fn from_str(text: &str) -> Result<Self, StateKeyError> {
        let text = text.trim();
        let bytes = if text.len() == 2 * KEY { from_hex(text) } else { None };
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

/// Why a text is no [`StateKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateKeyError;

impl fmt::Display for StateKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a state key is 32 bytes, as 64 hexadecimal digits or as base64: `openssl rand -hex 32` makes one")
    }
}

impl std::error::Error for StateKeyError {}

/// The keys of one server: the first one seals, all of them open.
#[derive(Debug)]
pub(crate) struct StateKeys {
    ring: Mutex<Ring>,
    ttl: Duration,
}

#[derive(Debug)]
struct Ring {
    keys: Vec<StateKey>,
    /// When the first key was made, if it is the server's own to make.
    made: Option<Instant>,
}

/// What a state belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) principal: Option<Box<str>>,
    pub(crate) method: &'static str,
    /// The tool, the prompt or the URI.
    pub(crate) name: Box<str>,
    /// The JSON of the arguments.
    pub(crate) arguments: Box<str>,
}

impl Binding {
    /// A digest of all of it, in which arguments are equal however they are written.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [self.principal.as_deref().unwrap_or_default(), self.method, &self.name] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update([u8::from(self.principal.is_some())]);
        hash.update(canonical(&self.arguments));
        hash.finalize().into()
    }
}

/// What a call knows when it ends with questions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The questions that it ends with: of each key, the digest of what is asked.
    #[serde(rename = "q")]
    pub(super) asked: HashMap<String, String>,
    /// The questions that were answered before: key, digest and the JSON of the answer.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) answered: Vec<(String, String, String)>,
    /// The JSON of the values that were made once.
    #[serde(rename = "o", default, skip_serializing_if = "HashMap::is_empty")]
    pub(super) once: HashMap<String, String>,
}

impl State {
    /// Says whether it holds nothing that must not be changed: without answers and values, it only keeps an answer from being
    /// taken for another question's. Such a state is not sealed, so that servers that share no key can answer for each other.
    fn is_plain(&self) -> bool {
        self.answered.is_empty() && self.once.is_empty()
    }
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(rename = "e")]
    expires: u64,
    #[serde(rename = "s")]
    state: State,
}

impl StateKeys {
    /// Seals with the first of these keys; with a random one, replaced now and then, if there are none. States are good for `ttl`.
    pub(crate) fn new(keys: Vec<StateKey>, ttl: Duration) -> Self {
        Self { ring: Mutex::new(Ring { keys, made: None }), ttl }
    }

    /// Writes a state for the client to carry.
    pub(super) fn seal(&self, binding: &[u8; 32], state: State) -> Result<String, Fault> {
        let mut bytes = Vec::new();
        if state.is_plain() {
            bytes.push(PLAIN);
            bytes.extend(json(&state)?);
        } else {
            let key = self.sealing_key()?;
            let mut nonce = [0; NONCE];
            fill(&mut nonce)?;
            let expires = now().saturating_add(self.ttl.as_secs());
            let payload = json(&Sealed { expires, state })?;
            let payload = Payload { msg: &payload, aad: binding };
            let sealed = key.cipher().encrypt(&XNonce::from(nonce), payload);
            let sealed = sealed.map_err(|_| Fault::internal("the state of the request cannot be sealed"))?;
            bytes.push(SEALED);
            bytes.extend(key.id());
            bytes.extend(nonce);
            bytes.extend(sealed);
        }
        match bytes.len() > MOST {
            true => Err(Fault::internal("the answers are too large to be carried to the next round")),
            false => Ok(URL_SAFE_NO_PAD.encode(bytes)),
        }
    }

    /// Reads a state that a client brings.
    ///
    /// # Errors
    ///
    /// A fault that tells the client what to do, and no more: why it was refused is for the log.
    pub(super) fn open(&self, binding: &[u8; 32], text: &str) -> Result<State, Fault> {
        self.try_open(binding, text).map_err(|why| {
            tracing::warn!(why, "a `requestState` was refused");
            Fault::invalid_params("`requestState` is not valid for this request, or no longer: begin again without it")
        })
    }

    fn try_open(&self, binding: &[u8; 32], text: &str) -> Result<State, &'static str> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is no base64")?;
        match bytes.split_first() {
            Some((&PLAIN, plain)) => {
                let state: State = serde_json::from_slice(plain).map_err(|_| "it is malformed")?;
                state.is_plain().then_some(state).ok_or("it holds what must be sealed")
            }
            Some((&SEALED, sealed)) => self.unseal(binding, sealed),
            _ => Err("it is none of ours"),
        }
    }

    fn unseal(&self, binding: &[u8; 32], bytes: &[u8]) -> Result<State, &'static str> {
        let (id, rest) = bytes.split_first_chunk::<KEY_ID>().ok_or("it is too short")?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>().ok_or("it is too short")?;
        let key = self.ring().keys.iter().find(|key| key.id() == *id).cloned();
        let key = key.ok_or("it was sealed with another key")?;
        let payload = Payload { msg: sealed, aad: binding };
        let payload = key.cipher().decrypt(&XNonce::from(*nonce), payload);
        let payload = payload.map_err(|_| "it was tampered with, or belongs to another request or principal")?;
        let Sealed { expires, state } = serde_json::from_slice(&payload).map_err(|_| "it is of another version")?;
        if now() >= expires { Err("it is too old") } else { Ok(state) }
    }

    /// The key to seal with. One of the server's own making is replaced when the oldest state that it sealed is no longer good; the one
    /// before it is kept for the states that are on their way.
    fn sealing_key(&self) -> Result<StateKey, Fault> {
        let mut ring = self.ring();
        let is_own = ring.keys.is_empty() || ring.made.is_some();
        if is_own && ring.made.is_none_or(|made| made.elapsed() >= self.ttl.max(Duration::from_secs(60))) {
            ring.keys.insert(0, StateKey::random()?);
            ring.keys.truncate(2);
            ring.made = Some(Instant::now());
        }
        ring.keys.first().cloned().ok_or_else(|| Fault::internal("there is no key to seal with"))
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A digest of what is asked, which tells one question under a key from another, also from that of another request.
pub(super) fn question_digest(binding: &[u8; 32], method: &str, params: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(binding);
    hash.update(method);
    hash.update([0]);
    hash.update(params);
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|_| Fault::internal("the state of the request cannot be written"))
}

fn fill(bytes: &mut [u8]) -> Result<(), Fault> {
    let sealed = random::fill(bytes).then_some(());
    sealed.ok_or_else(|| Fault::internal("the state of the request cannot be sealed"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        Binding {
            principal: Some("ada".into()),
            method: "tools/call",
            name: "delete".into(),
            arguments: r#"{"path":"/a","force":true}"#.into(),
        }
    }

    fn state() -> State {
        State {
            asked: HashMap::from([("again".to_owned(), "d2".to_owned())]),
            answered: vec![("confirm".to_owned(), "d1".to_owned(), r#"{"action":"accept"}"#.to_owned())],
            once: HashMap::from([("seat".to_owned(), "7".to_owned())]),
        }
    }

    fn keys(bytes: &[u8]) -> StateKeys {
        let keys = bytes.iter().map(|byte| StateKey::new([*byte; KEY])).collect();
        StateKeys::new(keys, Duration::from_secs(600))
    }

    #[test]
    fn a_state_is_good_for_its_own_request_only() {
        let keys = keys(&[1]);
        let sealed = keys.seal(&binding().digest(), state()).unwrap();
        for (what, binding, is_good) in [
            ("the same", binding(), true),
            (
                "rewritten arguments",
                Binding { arguments: r#"{ "force": true, "path": "\u002fa" }"#.into(), ..binding() },
                true,
            ),
            ("other arguments", Binding { arguments: r#"{"path":"/b","force":true}"#.into(), ..binding() }, false),
            ("another tool", Binding { name: "copy".into(), ..binding() }, false),
            ("another method", Binding { method: "prompts/get", ..binding() }, false),
            ("another user", Binding { principal: Some("eve".into()), ..binding() }, false),
            ("nobody", Binding { principal: None, ..binding() }, false),
            ("an unnamed user", Binding { principal: Some("".into()), ..binding() }, false),
        ] {
            assert_eq!(keys.open(&binding.digest(), &sealed).is_ok(), is_good, "{what}");
        }
        assert_eq!(keys.open(&binding().digest(), &sealed).unwrap(), state());
    }

    #[test]
    fn arguments_are_told_apart_that_no_value_of_ours_can_hold() {
        let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200), "]".repeat(200));
        for (left, right) in [
            ("[18446744073709551616]", "[18446744073709551617]"),
            (r#"{"to":"ada","x":1e999}"#, r#"{"to":"eve","x":1e999}"#),
            (&deep("1"), &deep("2")),
        ] {
            let digest = |arguments: &str| Binding { arguments: arguments.into(), ..binding() }.digest();
            assert_ne!(digest(left), digest(right), "{left} {right}");
        }
    }

    #[test]
    fn a_state_of_another_key_or_time_is_refused_and_rotated_keys_still_open() {
        let binding = binding().digest();
        let sealed = keys(&[1]).seal(&binding, state()).unwrap();
        assert!(keys(&[2, 1]).open(&binding, &sealed).is_ok());
        assert!(keys(&[2]).open(&binding, &sealed).is_err());
        assert!(keys(&[]).open(&binding, &sealed).is_err());
        let short_lived = StateKeys::new(vec![StateKey::new([1; KEY])], Duration::ZERO);
        let expired = short_lived.seal(&binding, state()).unwrap();
        assert_eq!(short_lived.try_open(&binding, &expired), Err("it is too old"));
    }

    #[test]
    fn every_change_of_a_state_is_noticed() {
        let keys = keys(&[1]);
        let binding = binding().digest();
        let sealed = keys.seal(&binding, state()).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(keys.open(&binding, &URL_SAFE_NO_PAD.encode(changed)).is_err(), "byte {at}");
            assert!(keys.open(&binding, &URL_SAFE_NO_PAD.encode(&bytes[..at])).is_err(), "cut at {at}");
        }
        for text in ["", "-TAMPERED", "AA", &format!("{sealed}-TAMPERED"), &format!("{sealed}="), "é"] {
            assert!(keys.open(&binding, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_first_round_needs_no_key_and_cannot_smuggle_answers_in() {
        let asked = State { asked: state().asked, ..State::default() };
        let binding = binding().digest();
        let plain = keys(&[1]).seal(&binding, asked.clone()).unwrap();
        assert_eq!(keys(&[2]).open(&binding, &plain).unwrap(), asked);
        assert!(keys(&[1]).open(&binding, &format!("{plain}-TAMPERED")).is_err());
        let mut smuggled = vec![PLAIN];
        smuggled.extend(serde_json::to_vec(&state()).unwrap());
        assert!(keys(&[1]).open(&binding, &URL_SAFE_NO_PAD.encode(smuggled)).is_err());
    }

    #[test]
    fn a_random_key_is_made_when_it_is_needed() {
        let keys = keys(&[]);
        let binding = binding().digest();
        let sealed = keys.seal(&binding, state()).unwrap();
        assert_eq!(keys.open(&binding, &sealed).unwrap(), state());
    }

    #[test]
    fn what_is_too_large_is_not_carried() {
        let once = HashMap::from([("page".to_owned(), "x".repeat(MOST))]);
        let state = State { once, ..State::default() };
        assert!(keys(&[1]).seal(&binding().digest(), state).is_err());
    }

    #[test]
    fn keys_are_read_as_hexadecimal_digits_or_base64() {
        let key = StateKey::new([0xab; KEY]);
        for text in ["ab".repeat(KEY), STANDARD.encode([0xab; KEY]), URL_SAFE_NO_PAD.encode([0xab; KEY])] {
            assert_eq!(text.parse::<StateKey>().unwrap(), key, "{text}");
        }
        for text in ["", "ab", &"zz".repeat(KEY), &"é".repeat(KEY)] {
            assert_eq!(text.parse::<StateKey>(), Err(StateKeyError), "{text}");
        }
        assert_eq!(format!("{key:?}"), "StateKey(…)");
    }
}
