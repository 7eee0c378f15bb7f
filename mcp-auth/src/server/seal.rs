//! Authenticated encryption of what the server stores and of what it lets browsers and clients keep.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use serde::{Serialize, de::DeserializeOwned};

use crate::Error;

/// The size of a nonce, which is random: the extended nonces of this cipher are long enough for that.
const NONCE: usize = 24;

/// The minimum size of a secret in bytes.
const MIN_SECRET: usize = 32;

/// Seals values with the first of its keys, and opens those of all its keys.
#[derive(Clone)]
pub(super) struct Sealer(Arc<[XChaCha20Poly1305]>);

/// The purpose of a sealed value. A value that was sealed for one purpose cannot be opened for another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// The value of a record, which cannot be moved to another key.
    Record(&'a str),
    /// An authorization request, while the user decides.
    Consent,
    /// A login at the upstream provider, in a cookie.
    Login,
    /// The response of the provider, while the user confirms it.
    Confirmation,
    /// The user of the account page.
    Account,
    RefreshToken,
}

impl Purpose<'_> {
    fn name(self) -> String {
        match self {
            Self::Record(key) => format!("record {key}"),
            Self::Consent => "consent".to_owned(),
            Self::Login => "login".to_owned(),
            Self::Confirmation => "confirmation".to_owned(),
            Self::Account => "account".to_owned(),
            Self::RefreshToken => "refresh token".to_owned(),
        }
    }
}

struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        32
    }
}

impl Sealer {
    /// Derives keys from secrets, for one authorization server: another one with the same secrets has other keys.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no secret, or if one is too short.
    pub(super) fn new(secrets: &[Vec<u8>], server: &str) -> Result<Self, Error> {
        if secrets.is_empty() || secrets.iter().any(|secret| secret.len() < MIN_SECRET) {
            return Err(Error::options(format!("a secret has fewer than {MIN_SECRET} bytes")));
        }
        let salt = Salt::new(HKDF_SHA256, b"mcp-runtime-auth authorization server");
        let derive = |secret: &Vec<u8>| {
            let mut key = [0; 32];
            let derived = salt
                .extract(secret)
                .expand(&[b"seal ", server.as_bytes()], KeyLength)
                .and_then(|okm| okm.fill(&mut key));
            derived.map_err(|_| Error::Random)?;
            Ok(XChaCha20Poly1305::new(&key.into()))
        };
        Ok(Self(secrets.iter().map(derive).collect::<Result<_, Error>>()?))
    }

    pub(super) fn seal(&self, purpose: Purpose<'_>, value: &impl Serialize) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_vec(value).map_err(|_| Error::Random)?;
        let mut sealed = super::random::bytes::<NONCE>()?.to_vec();
        let nonce = XNonce::try_from(sealed.as_slice()).map_err(|_| Error::Random)?;
        let aad = purpose.name();
        let payload = Payload { msg: &text, aad: aad.as_bytes() };
        sealed.extend(self.0[0].encrypt(&nonce, payload).map_err(|_| Error::Random)?);
        Ok(sealed)
    }

    /// Returns `None` if the value was not sealed by this server, or for another purpose.
    pub(super) fn open<T: DeserializeOwned>(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Option<T> {
        let (nonce, text) = sealed.split_at_checked(NONCE)?;
        let nonce = XNonce::try_from(nonce).ok()?;
        let aad = purpose.name();
        let opened = |key: &XChaCha20Poly1305| key.decrypt(&nonce, Payload { msg: text, aad: aad.as_bytes() }).ok();
        serde_json::from_slice(&self.0.iter().find_map(opened)?).ok()
    }

    pub(super) fn seal_text(&self, purpose: Purpose<'_>, value: &impl Serialize) -> Result<String, Error> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.seal(purpose, value)?))
    }

    pub(super) fn open_text<T: DeserializeOwned>(&self, purpose: Purpose<'_>, sealed: &str) -> Option<T> {
        self.open(purpose, &BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?)
    }
}
