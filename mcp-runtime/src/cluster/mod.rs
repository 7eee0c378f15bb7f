//! Everything that exists because several processes share a backend.
//!
//! A process is a [`Replica`] with a number, its [`Slot`]. The slot is a record that expires unless the replica renews
//! it, so the others see when a replica is gone. Messages are delivered at most once: whatever they announce must be
//! found in a record as well, and is read again when a replica [missed](ReplicaHandler::missed) messages.
//!
//! - The member: [`replica`], with its [`lease`], [`slot`], [`server_name`] and [`freshness`].
//! - The bus: messages between replicas, by kind ([`bus`]).
//! - Sessions that every replica can use ([`sessions`]): their records ([`session_store`]), the local copy
//!   ([`shared_session`]), and what replicas announce to each other about them ([`session_messages`]).
//! - Their event streams ([`streams`]).
//! - [`changes`] of lists and resources, and [`log_messages`] outside of calls.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod bus;
mod changes;
mod lease;
mod log_messages;
mod replica;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has sessions that replicas share"))]
mod session_record;
#[cfg(feature = "http")]
mod session_store;
#[cfg(feature = "http")]
mod sessions;
#[cfg(feature = "http")]
pub(crate) mod streams;
#[cfg(feature = "http")]
mod work;
#[cfg(feature = "http")]
mod worker;

pub(crate) use self::{
    bus::ReplicaHandler,
    changes::{ChangeSet, ChangedResources, SharedChanges},
    lease::{ServerName, Slot},
    log_messages::SharedLog,
    replica::Replica,
    session_record::{SessionChange, SessionMessage, SharedSession},
};
#[cfg(feature = "http")]
pub(crate) use self::{session_record::SessionRecord, sessions::SharedSessions, streams::ReaderRecord};
