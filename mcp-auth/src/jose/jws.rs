use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::Algorithm;
use crate::json::parse_object;

/// A signed token in the compact serialization, whose signature has not been verified.
pub(crate) struct Jws<'a> {
    header: Map<String, Value>,
    algorithm: Algorithm,
    /// The part of the text that is signed.
    signed: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Parses a token. The members `jku`, `jwk`, `x5u` and `x5c` of the header, which name or contain a key, have no
    /// effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a token, or if its header demands what cannot be verified.
    pub(crate) fn parse(text: &'a str) -> Result<Self, &'static str> {
        let malformed = "the token is not a signed JWT";
        let (signed, signature) = text.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(malformed)?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed);
        let (header, payload, signature) = (decode(header)?, decode(payload)?, decode(signature)?);
        let header = parse_object(&header).map_err(|_| malformed)?;
        if header.contains_key("crit") {
            return Err("the token requires an extension that is not supported");
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::from_name);
        let algorithm = algorithm.ok_or("the algorithm of the token is not accepted")?;
        if header.get("kid").is_some_and(|id| !id.is_string()) {
            return Err(malformed);
        }
        Ok(Self { header, algorithm, signed, payload, signature })
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the name of the key. It is only compared with the names of known keys.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.get("kid")?.as_str()
    }

    /// Returns the type in lower case, without the prefix `application/`.
    pub(crate) fn kind(&self) -> Option<String> {
        let kind = self.header.get("typ")?.as_str().unwrap_or_default().to_ascii_lowercase();
        Some(kind.strip_prefix("application/").map(str::to_owned).unwrap_or(kind))
    }

    /// Returns the key in the header, which proves nothing about the sender.
    pub(crate) fn embedded_key(&self) -> Option<&Map<String, Value>> {
        self.header.get("jwk")?.as_object()
    }

    /// Returns about how many bytes the decoded claims use.
    pub(crate) fn memory(&self) -> usize {
        512 + self.payload.len() * 4
    }

    pub(crate) fn signed(&self) -> &[u8] {
        self.signed.as_bytes()
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Decodes the claims, without duplicate names.
    pub(crate) fn claims(&self) -> Result<Map<String, Value>, &'static str> {
        parse_object(&self.payload).map_err(|_| "the claims of the token are not a JSON object with unique names")
    }
}

/// Omits the contents, which are secret together with the signature.
impl fmt::Debug for Jws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jws").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
