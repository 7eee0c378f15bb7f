//! Random values and hashes.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::Error;

pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

/// Waits for a random part of a time before another attempt, so that the attempts of several processes do not coincide.
pub(super) async fn pause(longest: Duration) {
    let [random] = bytes().unwrap_or([u8::MAX]);
    tokio::time::sleep(longest * (u32::from(random) + 1) / 256).await;
}

/// Returns an unguessable text: 256 random bits in base64url.
pub(super) fn token() -> Result<String, Error> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes::<32>()?))
}

/// Returns the SHA-256 hash of a text in base64url, which is also the challenge of a PKCE verifier.
pub(super) fn hash(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}
