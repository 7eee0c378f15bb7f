//! The state of a request between its rounds, and the request that it is bound to.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
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
}
