use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::HeaderValue;
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::Error;

/// The time after which the nonce changes, in seconds. It is accepted for as long again.
const PERIOD: f64 = 150.0;

/// Nonces that are derived from the time, so that none has to be remembered.
pub(super) struct Nonces(hmac::Key);

impl Nonces {
    /// # Errors
    ///
    /// Returns an error if there are no random numbers for the key.
    pub(super) fn new(key: Option<[u8; 32]>) -> Result<Self, Error> {
        let key = match key {
            Some(key) => key,
            None => {
                let mut key = [0; 32];
                SystemRandom::new().fill(&mut key).map_err(|_| Error::Random)?;
                key
            }
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// Checks the nonce of a proof. Returns the current nonce if the proof contains the previous one.
    ///
    /// # Errors
    ///
    /// Returns the current nonce if the proof contains neither.
    pub(super) fn check(&self, nonce: Option<&str>, now: f64) -> Result<Option<HeaderValue>, HeaderValue> {
        let period = (now / PERIOD) as u64;
        let tag = nonce.and_then(|nonce| BASE64_URL_SAFE_NO_PAD.decode(nonce).ok());
        let is_of =
            |period: u64| tag.as_ref().is_some_and(|tag| hmac::verify(&self.0, &period.to_be_bytes(), tag).is_ok());
        if is_of(period) {
            Ok(None)
        } else if is_of(period.saturating_sub(1)) {
            Ok(Some(self.nonce(period)))
        } else {
            Err(self.nonce(period))
        }
    }

    fn nonce(&self, period: u64) -> HeaderValue {
        let nonce = BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &period.to_be_bytes()));
        HeaderValue::try_from(nonce).expect("base64url consists of visible characters")
    }
}
