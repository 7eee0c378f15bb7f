//! The output of a connection, or of an HTTP response stream, until the transport takes it.

mod contents;
#[allow(clippy::module_inception)]
mod outbox;
#[cfg(test)]
mod tests;

pub(super) use self::contents::{MAX_UNREAD_BYTES, PendingNotifications};
pub(crate) use self::outbox::Outbox;
