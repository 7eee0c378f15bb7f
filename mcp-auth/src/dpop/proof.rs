use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, Method};
use serde_json::{Map, Value};

use crate::{
    jose::{Jwk, Jws},
    url::SecureUrl,
};

/// The maximum size of a proof in bytes.
const MAX_PROOF: usize = 8 * 1024;

/// A proof whose signature is valid.
pub(crate) struct Proof {
    claims: Map<String, Value>,
    /// The thumbprint of its key.
    pub(crate) thumbprint: String,
    /// The unique identifier.
    pub(super) id: String,
    /// The time of creation in seconds since the Unix epoch.
    pub(super) created: f64,
    pub(super) nonce: Option<String>,
}

impl Proof {
    /// Reads the proof of a request and verifies its signature with the key that it contains.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, &'static str> {
        let mut headers = headers.get_all("dpop").iter();
        let text = headers.next().ok_or("the proof of possession is missing")?;
        if headers.next().is_some() {
            return Err("expected one proof of possession");
        }
        let text = text.to_str().ok().filter(|text| text.len() <= MAX_PROOF).ok_or("the proof is not a signed JWT")?;
        let jws = Jws::parse(text).map_err(|_| "the proof is not a signed JWT that is supported")?;
        if jws.kind().as_deref() != Some("dpop+jwt") {
            return Err("the type of the proof is not `dpop+jwt`");
        }
        let key = jws.embedded_key().ok_or("the proof does not contain its key")?;
        let key = Jwk::parse(key).map_err(|_| "the key of the proof is not a supported public key")?;
        key.verify(&jws).map_err(|_| "the signature of the proof is invalid")?;
        let claims = jws.claims().map_err(|_| "the claims of the proof are not a JSON object with unique names")?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = text("jti").filter(|id| !id.is_empty()).ok_or("the proof has no `jti`")?;
        let created = claims.get("iat").and_then(Value::as_f64).ok_or("the proof has no `iat`")?;
        let nonce = text("nonce");
        Ok(Self { thumbprint: key.thumbprint(), id, created, nonce, claims })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name).and_then(Value::as_str)
    }

    /// Checks that the proof is for a request with this method and URL.
    ///
    /// # Errors
    ///
    /// Returns what does not match.
    pub(super) fn check_request(&self, method: &Method, url: &SecureUrl) -> Result<(), &'static str> {
        if self.text("htm") != Some(method.as_str()) {
            return Err("the proof is for another method");
        }
        // A fragment is ignored like a query, as RFC 9449, 4.3 says.
        let stated = self.text("htu").and_then(|stated| SecureUrl::parse(stated.split('#').next()?).ok());
        if !stated.is_some_and(|stated| stated.identifies_same(url)) {
            return Err("the proof is for another URL");
        }
        Ok(())
    }

    /// Checks that the proof is for the token with this SHA-256 hash, which is bound to a key.
    ///
    /// # Errors
    ///
    /// Returns what does not match.
    pub(super) fn check_token(&self, token: &[u8], thumbprint: &str) -> Result<(), &'static str> {
        if self.text("ath") != Some(BASE64_URL_SAFE_NO_PAD.encode(token).as_str()) {
            return Err("the proof is for another token");
        }
        if self.thumbprint != thumbprint {
            return Err("the token is bound to another key");
        }
        Ok(())
    }
}
