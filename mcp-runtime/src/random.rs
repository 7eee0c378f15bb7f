//! Randomness of the operating system.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// Fills bytes; false, and a line in the log, where there is no randomness to be had.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    match getrandom::fill(bytes) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, "there is no randomness");
            false
        }
    }
}

/// Makes an id that nobody can guess: 192 random bits, in visible ASCII.
pub(crate) fn id() -> Option<String> {
    let mut bytes = [0; 24];
    fill(&mut bytes).then(|| URL_SAFE_NO_PAD.encode(bytes))
}
