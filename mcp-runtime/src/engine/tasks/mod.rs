//! Calls that run as tasks.
//!
//! The state of a task is a record of the backend, and its function runs in the process that received the call.
//! Requests and runners both change the record and wait for each other's changes, so a client may talk to any process
//! that shares the backend. A process that runs a task has a lease. Once the lease is gone, any process that reads the
//! task reports it as failed.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

mod changes;
pub(crate) mod client;
mod encode;
mod inbox;
pub(crate) mod key;
mod quota;
mod reader;
mod records;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod runner;
pub(crate) mod service;
mod store;
#[cfg(all(test, feature = "cluster"))]
mod store_tests;
mod task;
pub(crate) mod watch;

pub use task::TaskStatus;

/// The `tracing` target of the events that tell who has created, used and cancelled which task.
pub(crate) const LOG_TARGET: &str = "mcp_runtime::tasks";
