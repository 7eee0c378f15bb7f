//! Calls that run as tasks.
//!
//! The state of a task is a record of the backend, and its function runs in the process that received the call. Requests
//! and runners both change the record and wait for each other's changes, so a client may talk to any process that
//! shares the backend. A process that runs a task has a lease: when it is gone, every process that reads the task
//! finds that it has failed.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

mod arguments;
mod changes;
mod claims;
pub(crate) mod client;
mod encode;
mod errors;
mod eviction;
pub(crate) mod extension;
pub(crate) mod handoff;
mod inbox;
pub(crate) mod key;
mod limits;
pub(crate) mod options;
mod records;
pub(crate) mod request;
pub(crate) mod result;
mod room;
pub(crate) mod runner;
mod runners;
pub(crate) mod service;
mod status;
mod store;
#[cfg(test)]
mod store_tests;
mod task;
pub(crate) mod watch;

pub use limits::TaskLimits;
pub use status::TaskStatus;
