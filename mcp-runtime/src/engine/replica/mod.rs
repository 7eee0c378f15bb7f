//! The processes that share a backend: how they are numbered, how they learn that one is gone, and how they send
//! messages to each other.
//!
//! A process is a [`Replica`] with a number, its [`Slot`]. The slot is a record that expires unless the replica renews
//! it, so the others see when a replica is gone. Messages are delivered at most once: whatever they announce must be
//! found in a record as well, and is read again when a replica [missed](ReplicaHandler::missed) messages.

mod freshness;
mod handlers;
mod lease;
#[cfg(feature = "http")]
mod reader;
#[allow(clippy::module_inception)]
mod replica;
mod server_name;
mod slot;

#[cfg(feature = "http")]
pub(crate) use self::reader::ReaderRecord;
#[cfg_attr(not(feature = "http"), allow(unused_imports, reason = "only HTTP has sessions that replicas share"))]
pub(crate) use self::{handlers::ReplicaHandler, slot::Slot};
pub(crate) use self::{replica::Replica, server_name::ServerName};
