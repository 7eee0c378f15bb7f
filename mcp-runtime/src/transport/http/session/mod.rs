//! The sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod due;
#[allow(clippy::module_inception)]
mod session;
mod sessions;
mod shared_sessions;
mod shared_work;
mod stream_eviction;
mod worker;

pub(super) use self::{
    session::{ActiveSession, HttpSession},
    sessions::{Sessions, new_id},
    shared_sessions::SharedSessions,
};
