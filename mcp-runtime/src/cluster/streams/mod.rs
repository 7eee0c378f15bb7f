//! Streams of sessions that several processes share.
//!
//! The replica that received a call owns the stream of its response: its id contains the replica's slot. A [pump]
//! writes the events to a log in the backend before any of them is sent, whether or not a response carries the stream.
//! The id of an event contains its position in the log, so a [follower] at any replica can continue after it. The log
//! also decides everything on which replicas must agree: what follows the first entry that completes the stream does not
//! count, so the call of a replica that is gone is answered once.

mod calls;
mod cursor;
mod entry;
mod feed;
mod follower;
mod general;
mod local_entries;
mod log;
mod open_responses;
mod pump;
mod reader;
mod shared_events;
#[allow(clippy::module_inception)]
mod streams;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use calls::StreamCalls;
pub(crate) use reader::ReaderRecord;
pub(crate) use shared_events::SharedEvents;
pub(crate) use streams::{SessionStreams, SharedStreams};
