//! Seals the state that a client returns in the next round, so that the client can neither read nor change it.
//!
//! A state is sealed with XChaCha20-Poly1305 and bound to the server and to the principal, the method, the name and the
//! arguments of its request. The state of a first round holds no secrets and is not sealed, see [`RequestState::is_plain`].
//!
//! See [Server requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    XNonce,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};

use super::state::{RequestState, check_size, json};
use crate::{
    backend::Timestamp,
    engine::{
        replicas::{KEY_ID_LEN, Replicas, SharedKeys, StateKey},
        request::params::invalid_request_state,
    },
    error::Fault,
    random,
    stdx::Mutex,
};

const NONCE_LEN: usize = 24;
/// The minimum time between two generated keys.
const MIN_ROTATION: Duration = Duration::from_secs(60);
/// The first byte of a sealed state.
const SEALED: u8 = 1;
/// The first byte of a state that is not sealed.
const PLAIN: u8 = 0;

/// The keys of a server. One of them seals states; every key can open them.
#[derive(Debug)]
pub(crate) struct StateKeys {
    /// The keys that were configured, or that this process has generated. Unused if processes share their keys.
    own: Mutex<OwnKeys>,
    ttl: Duration,
    /// The name of the server, to which states are bound: other servers may have the same keys.
    server: Box<str>,
    /// The processes that share a backend, whose clock is used instead of the clock of this machine.
    replicas: Option<Arc<dyn Replicas>>,
}

/// The keys of this process. The first one seals.
#[derive(Debug)]
struct OwnKeys {
    keys: Vec<StateKey>,
    /// The time at which the first key was generated. `None` if the keys were configured or none has been generated
    /// yet.
    generated: Option<Instant>,
}

#[derive(Serialize, Deserialize)]
struct SealedState {
    #[serde(rename = "t")]
    expires: Timestamp,
    #[serde(rename = "s")]
    state: RequestState,
}

impl StateKeys {
    /// Creates the keys of a server whose states expire after `ttl`. If `keys` is empty, the keys of all processes are
    /// used. Without other processes, a random key is generated on first use and rotated.
    pub(crate) fn new(keys: Vec<StateKey>, ttl: Duration, server: &str, replicas: Option<Arc<dyn Replicas>>) -> Self {
        Self { own: Mutex::new(OwnKeys { keys, generated: None }), ttl, server: server.into(), replicas }
    }

    /// Returns the data that a state is bound to.
    fn associated_data(&self, binding: &[u8; 32]) -> Vec<u8> {
        [&binding[..], self.server.as_bytes()].concat()
    }

    fn now(&self) -> Timestamp {
        self.replicas.as_ref().map_or_else(Timestamp::now, |replicas| replicas.clock().now())
    }

    /// Returns the keys of all processes. Returns `None` if this process has keys of its own.
    fn shared(&self) -> Option<&dyn SharedKeys> {
        self.replicas.as_ref()?.keys()
    }

    /// Returns a future that waits until a state can be sealed, for as long as a response of the backend may take. Returns
    /// `None` if a state can be sealed now.
    pub(super) fn until_ready(self: &Arc<Self>) -> Option<impl Future<Output = ()> + use<>> {
        self.shared().filter(|keys| !keys.is_ready())?;
        let states = Arc::clone(self);
        Some(async move {
            if let Some(keys) = states.shared() {
                keys.ready().await;
            }
        })
    }

    /// Encodes a state for the client to return.
    ///
    /// # Errors
    ///
    /// Fails if the state is too large, if the operating system provides no randomness, or if the keys are shared and
    /// the backend has never responded.
    pub(super) fn keep(&self, binding: &[u8; 32], state: RequestState) -> Result<String, Fault> {
        let is_plain = state.is_plain();
        let bytes = if is_plain { [&[PLAIN][..], &json(&state)?].concat() } else { self.sealed(binding, state)? };
        check_size(bytes.len())?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn sealed(&self, binding: &[u8; 32], state: RequestState) -> Result<Vec<u8>, Fault> {
        let key = self.sealing_key()?;
        let mut nonce = [0; NONCE_LEN];
        random::fill(&mut nonce).then_some(()).ok_or_else(cannot_seal)?;
        let expires = self.now().saturating_add(self.ttl);
        let payload = json(&SealedState { expires, state })?;
        let payload = Payload { msg: &payload, aad: &self.associated_data(binding) };
        let sealed = key.cipher().encrypt(&XNonce::from(nonce), payload).map_err(|_| cannot_seal())?;
        Ok([&[SEALED][..], &key.id(), &nonce, &sealed].concat())
    }

    /// Decodes a state that a client returned.
    ///
    /// # Errors
    ///
    /// Fails if the state is invalid, has expired, or belongs to another request. The reason is logged and not sent to
    /// the client.
    pub(super) fn open(&self, binding: &[u8; 32], text: &str) -> Result<RequestState, Fault> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid_request_state("not base64"))?;
        match bytes.split_first() {
            Some((&PLAIN, plain)) => {
                let state = serde_json::from_slice(plain).map_err(|_| invalid_request_state("malformed"))?;
                let allowed = Some(state).filter(RequestState::is_plain);
                allowed.ok_or_else(|| invalid_request_state("contains data that must be sealed"))
            }
            Some((&SEALED, sealed)) => self.unseal(binding, sealed),
            _ => Err(invalid_request_state("unknown format")),
        }
    }

    fn unseal(&self, binding: &[u8; 32], bytes: &[u8]) -> Result<RequestState, Fault> {
        let too_short = || invalid_request_state("too short");
        let (id, rest) = bytes.split_first_chunk::<KEY_ID_LEN>().ok_or_else(too_short)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(too_short)?;
        let key = match self.shared() {
            Some(keys) => keys.find(*id)?,
            None => self.own.lock().keys.iter().find(|key| key.id() == *id).cloned(),
        };
        let key = key.ok_or_else(|| invalid_request_state("sealed with an unknown key"))?;
        let payload = Payload { msg: sealed, aad: &self.associated_data(binding) };
        let payload = key
            .cipher()
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| invalid_request_state("tampered with, or bound to another request, principal or server"))?;
        let SealedState { expires, state } =
            serde_json::from_slice(&payload).map_err(|_| invalid_request_state("unknown version"))?;
        if self.now() >= expires { Err(invalid_request_state("expired")) } else { Ok(state) }
    }

    fn sealing_key(&self) -> Result<StateKey, Fault> {
        match self.shared() {
            Some(keys) => keys.sealing(),
            None => self.own.lock().sealing_key(self.ttl),
        }
    }
}

impl OwnKeys {
    /// Returns the key that seals. A generated key is replaced when the first state that it sealed expires, and kept
    /// until the next replacement for the states that clients still hold.
    fn sealing_key(&mut self, ttl: Duration) -> Result<StateKey, Fault> {
        let is_generated = self.keys.is_empty() || self.generated.is_some();
        if is_generated && self.generated.is_none_or(|at| at.elapsed() >= ttl.max(MIN_ROTATION)) {
            self.keys.insert(0, StateKey::random().ok_or_else(cannot_seal)?);
            self.keys.truncate(2);
            self.generated = Some(Instant::now());
        }
        self.keys.first().cloned().ok_or_else(cannot_seal)
    }
}

fn cannot_seal() -> Fault {
    Fault::internal("the state of the request cannot be sealed")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{
        super::state::{AnsweredQuestion, Binding},
        *,
    };
    use crate::engine::{client_requests::state::MAX_STATE_LEN, replicas::KEY_LEN};

    fn binding() -> Binding {
        Binding {
            principal: Some("ada".into()),
            method: "tools/call",
            name: "delete".into(),
            arguments: r#"{"path":"/a","force":true}"#.into(),
        }
    }

    fn state() -> RequestState {
        RequestState {
            traceparent: None,
            asked: HashMap::from([("again".to_owned(), "d2".to_owned())]),
            answered: vec![AnsweredQuestion {
                key: "confirm".to_owned(),
                digest: "d1".to_owned(),
                response: r#"{"action":"accept"}"#.to_owned(),
            }],
            rejected: HashMap::from([("again".to_owned(), 1)]),
            once: HashMap::from([("seat".to_owned(), "7".to_owned())]),
        }
    }

    fn keys(bytes: &[u8]) -> StateKeys {
        keys_of("files", bytes)
    }

    fn keys_of(server: &str, bytes: &[u8]) -> StateKeys {
        let keys = bytes.iter().map(|byte| StateKey::new([*byte; KEY_LEN])).collect();
        StateKeys::new(keys, Duration::from_secs(600), server, None)
    }

    #[test]
    fn a_state_opens_for_its_own_request_only() {
        let keys = keys(&[1]);
        let sealed = keys.keep(&binding().digest(), state()).unwrap();
        for (label, binding, opens) in [
            ("same request", binding(), true),
            (
                "same arguments in another notation",
                Binding { arguments: r#"{ "force": true, "path": "\u002fa" }"#.into(), ..binding() },
                true,
            ),
            ("other arguments", Binding { arguments: r#"{"path":"/b","force":true}"#.into(), ..binding() }, false),
            ("other tool", Binding { name: "copy".into(), ..binding() }, false),
            ("other method", Binding { method: "prompts/get", ..binding() }, false),
            ("other principal", Binding { principal: Some("eve".into()), ..binding() }, false),
            ("no principal", Binding { principal: None, ..binding() }, false),
            ("empty principal", Binding { principal: Some("".into()), ..binding() }, false),
        ] {
            assert_eq!(keys.open(&binding.digest(), &sealed).is_ok(), opens, "{label}");
        }
        assert_eq!(keys.open(&binding().digest(), &sealed).unwrap(), state());
    }

    #[test]
    fn unknown_keys_and_expired_states_are_rejected_and_rotated_keys_still_open() {
        let binding = binding().digest();
        let sealed = keys(&[1]).keep(&binding, state()).unwrap();
        assert!(keys(&[2, 1]).open(&binding, &sealed).is_ok());
        assert!(keys(&[2]).open(&binding, &sealed).is_err());
        assert!(keys(&[]).open(&binding, &sealed).is_err());
        assert!(keys_of("mail", &[1]).open(&binding, &sealed).is_err(), "of another server");
        let short_lived = StateKeys::new(vec![StateKey::new([1; KEY_LEN])], Duration::ZERO, "files", None);
        let expired = short_lived.keep(&binding, state()).unwrap();
        assert!(short_lived.open(&binding, &expired).is_err());
        assert!(keys(&[1]).open(&binding, &expired).is_err(), "expired for the holder of the key, too");
    }

    #[test]
    fn every_change_of_a_sealed_state_is_detected() {
        let keys = keys(&[1]);
        let binding = binding().digest();
        let sealed = keys.keep(&binding, state()).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(keys.open(&binding, &URL_SAFE_NO_PAD.encode(changed)).is_err(), "byte {at}");
            assert!(keys.open(&binding, &URL_SAFE_NO_PAD.encode(&bytes[..at])).is_err(), "truncated to {at}");
        }
        for text in ["", "-TAMPERED", "AA", &format!("{sealed}-TAMPERED"), &format!("{sealed}="), "é"] {
            assert!(keys.open(&binding, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_state_needs_no_key_and_must_not_contain_responses() {
        let asked = RequestState { asked: state().asked, ..RequestState::default() };
        let binding = binding().digest();
        let plain = keys(&[1]).keep(&binding, asked.clone()).unwrap();
        assert_eq!(keys(&[2]).open(&binding, &plain).unwrap(), asked);
        assert!(keys(&[1]).open(&binding, &format!("{plain}-TAMPERED")).is_err());
        let mut with_responses = vec![PLAIN];
        with_responses.extend(serde_json::to_vec(&state()).unwrap());
        assert!(keys(&[1]).open(&binding, &URL_SAFE_NO_PAD.encode(with_responses)).is_err());
    }

    #[test]
    fn a_key_is_generated_on_first_use() {
        let keys = keys(&[]);
        let binding = binding().digest();
        let sealed = keys.keep(&binding, state()).unwrap();
        assert_eq!(keys.open(&binding, &sealed).unwrap(), state());
    }

    #[test]
    fn a_generated_key_still_opens_after_one_rotation_but_not_after_two() {
        let keys = StateKeys::new(Vec::new(), MIN_ROTATION, "files", None);
        let binding = binding().digest();
        let seal_with_new_key = || {
            // The sealing key has reached the age at which it is replaced.
            let mut ring = keys.own.lock();
            ring.generated = ring.generated.and_then(|at| at.checked_sub(MIN_ROTATION));
            drop(ring);
            keys.keep(&binding, state()).unwrap()
        };
        let first = seal_with_new_key();
        let second = seal_with_new_key();
        assert_eq!(keys.open(&binding, &first).unwrap(), state());
        assert_eq!(keys.open(&binding, &second).unwrap(), state());
        assert_eq!(keys.own.lock().keys.len(), 2);
        let third = seal_with_new_key();
        for (sealed, opens) in [(first, false), (second, true), (third, true)] {
            assert_eq!(keys.open(&binding, &sealed).is_ok(), opens);
        }
    }

    #[test]
    fn a_generated_key_opens_a_state_for_as_long_as_the_state_lives() {
        let keys = StateKeys::new(Vec::new(), MIN_ROTATION * 10, "files", None);
        let binding = binding().digest();
        let first = keys.keep(&binding, state()).unwrap();
        for _ in 0..3 {
            // As if the key had been generated earlier.
            let mut ring = keys.own.lock();
            ring.generated = ring.generated.and_then(|at| at.checked_sub(MIN_ROTATION));
            drop(ring);
            keys.keep(&binding, state()).unwrap();
        }
        assert_eq!(keys.open(&binding, &first).unwrap(), state());
    }

    #[test]
    fn states_above_the_size_limit_are_rejected() {
        let once = HashMap::from([("page".to_owned(), "x".repeat(MAX_STATE_LEN))]);
        let state = RequestState { once, ..RequestState::default() };
        assert!(keys(&[1]).keep(&binding().digest(), state).is_err());
    }
}
