//! Random bytes from the operating system.

/// Fills a buffer with random bytes. Logs an error and returns `false` if the operating system provides none.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    let filled = getrandom::fill(bytes);
    if let Err(error) = &filled {
        tracing::error!(%error, "cannot read random bytes from the operating system");
    }
    filled.is_ok()
}

/// Returns an unguessable id: 192 random bits in visible ASCII.
///
/// Returns `None` if the operating system provides no random bytes.
pub(crate) fn id() -> Option<String> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    let mut bytes = [0; 24];
    fill(&mut bytes).then(|| URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the part of an id that the log contains. The whole id of a session or a task would give readers of the log
/// access to it.
pub(crate) fn log_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Returns a random reference for a message and its entry in the log. Collisions are possible but unlikely.
pub(crate) fn reference() -> String {
    let mut bytes = [0; 8];
    // Without randomness, the reference consists of zeros. The log still contains the message.
    let _ = fill(&mut bytes[2..]);
    format!("{:012x}", u64::from_be_bytes(bytes))
}
