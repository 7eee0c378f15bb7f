//! The sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

#[allow(clippy::module_inception)]
mod session;
mod sessions;
mod stream_eviction;

pub(crate) use self::{
    session::{ActiveSession, HttpSession},
    sessions::{Sessions, new_id},
};
