//! Calls that run as tasks.
//!
//! The state of a task is a record of the backend, and its function runs in the process that received the call.
//! Requests and runners both change the record and wait for each other's changes, so a client may talk to any process
//! that shares the backend. A process that runs a task has a lease. Once the lease is gone, any process that reads the
//! task reports it as failed.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

mod client;
mod encode;
mod methods;
mod records;
mod request;
mod runner;
mod service;
mod store;
#[cfg(all(test, feature = "cluster"))]
mod store_tests;
mod task;

pub(super) use methods::{TaskWatch, call_tool, check_filter, request, watch};
pub(super) use service::Tasks;
pub use task::TaskStatus;

/// Expands to the support for tasks that a tool declares.
#[doc(hidden)]
#[macro_export]
macro_rules! __task_support {
    ($support:ident) => {
        $crate::__private::TaskSupport::$support
    };
}

/// The `tracing` target of the events that tell who has created, used and cancelled which task.
pub(crate) const LOG_TARGET: &str = "mcp_runtime::tasks";
