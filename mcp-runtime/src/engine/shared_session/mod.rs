//! Sessions that every replica can use: their records, what replicas announce to each other about them, and the messages
//! of a client that concern another replica.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

#[cfg(feature = "http")]
mod announcement;
mod message;
mod record;
mod shared;

#[cfg(feature = "http")]
pub(crate) use self::{
    announcement::Announcement,
    record::{RecordFull, SessionRecord},
    shared::StoredSession,
};
pub(crate) use self::{message::SessionMessage, record::SessionChange, shared::SharedSession};
