//! Streams of server-sent events.

pub(crate) mod body;
pub(crate) mod events;
pub(crate) mod stream;
