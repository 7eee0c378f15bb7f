//! Features that a revision deprecates, and the warning about their use.
//!
//! See [Deprecated features](https://modelcontextprotocol.io/specification/2026-07-28/deprecated).

use std::sync::atomic::{AtomicBool, Ordering};

/// A deprecated feature. The guide lists all of them.
#[derive(Debug)]
pub(crate) struct Deprecated {
    text: &'static str,
    is_reported: AtomicBool,
}

/// `sampling/createMessage`.
#[cfg(feature = "ask")]
pub(crate) static SAMPLING: Deprecated = Deprecated::new(
    "a function uses sampling, which is deprecated since 2026-07-28 (SEP-2577) and may be removed from revisions \
     after 2027-07-28: call the API of a model instead",
);

/// `roots/list`.
#[cfg(feature = "ask")]
pub(crate) static ROOTS: Deprecated = Deprecated::new(
    "a function uses roots, which are deprecated since 2026-07-28 (SEP-2577) and may be removed from revisions \
     after 2027-07-28: take directories as arguments or from the configuration instead",
);

/// `notifications/message`.
pub(crate) static LOG_MESSAGES: Deprecated = Deprecated::new(
    "a function sends log messages to the client, which are deprecated since 2026-07-28 (SEP-2577) and may be removed \
     from revisions after 2027-07-28: use `tracing` instead",
);

/// The transport of 2024-11-05.
#[cfg(feature = "http")]
pub(crate) static HTTP_SSE: Deprecated = Deprecated::new(
    "a client uses the transport HTTP+SSE, which is deprecated since 2025-03-26 (SEP-2596): \
     configure it with the URL of the streamable HTTP endpoint instead",
);

impl Deprecated {
    const fn new(text: &'static str) -> Self {
        Self { text, is_reported: AtomicBool::new(false) }
    }

    /// Logs that the feature is used, unless the process has logged it.
    pub(crate) fn warn(&self) {
        // The load is cheaper than the swap for threads that log a lot.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!("{}", self.text);
        }
    }
}
