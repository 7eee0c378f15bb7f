//! Streams of server-sent events.

pub(super) mod body;
pub(super) mod events;
pub(super) mod shared;
pub(super) mod stream;
mod wait;
