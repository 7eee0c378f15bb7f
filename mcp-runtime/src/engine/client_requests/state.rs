//! The state of a request between its rounds, and the request that it is bound to.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::jsonrpc::canonical;

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

/// Returns a digest that distinguishes a question from others with the same key, in this request and in all others.
pub(super) fn question_digest(binding: &[u8; 32], method: &str, params: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(binding);
    hash.update(method);
    hash.update([0]);
    hash.update(params);
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
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
