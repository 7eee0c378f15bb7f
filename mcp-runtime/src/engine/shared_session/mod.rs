//! Sessions that every replica can use: their records, what replicas announce to each other about them, and the messages
//! of a client that concern another replica.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod announcement;
mod message;
mod record;
mod shared;
mod store;

pub(crate) use self::{
    announcement::Announcement,
    message::SessionMessage,
    record::{SessionChange, SessionRecord},
    shared::SharedSession,
    store::{KIND, NewSession, SessionStore},
};
