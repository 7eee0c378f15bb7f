//! Calls that run as tasks.
//!
//! The record of a task is kept in a [`TaskStore`](crate::TaskStore), and its function runs in this process. Clients
//! and runners both change the record and wait for each other's changes, so a client may talk to any process that
//! shares the store.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

mod arguments;
mod claims;
pub(crate) mod client;
mod encode;
mod errors;
pub(crate) mod extension;
pub(crate) mod handoff;
mod inbox;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod runner;
mod runners;
pub(crate) mod service;
mod update;
pub(crate) mod watch;
