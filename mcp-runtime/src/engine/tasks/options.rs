//! The options of tasks, and the tasks extension of 2026-07-28 as clients declare it.

use std::time::Duration;

use serde_json::json;

use crate::{engine::request::params::Params, error::Fault, jsonrpc::RawJson};

/// The options of a server's tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskOptions {
    /// The time to live of a task whose client requests none.
    pub(crate) default_ttl: Duration,
    /// The maximum time to live that a client can request.
    pub(crate) max_ttl: Duration,
    /// The interval at which clients should poll.
    pub(crate) poll_interval: Duration,
    pub(crate) limits: TaskLimits,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(3600),
            max_ttl: Duration::from_secs(24 * 3600),
            poll_interval: Duration::from_secs(1),
            limits: TaskLimits::default(),
        }
    }
}

/// The maximum numbers of tasks that a server keeps, including finished ones.
///
/// Processes that share a [backend](crate::Server::backend) share the limits.
///
/// ```
/// use mcp_runtime::TaskLimits;
///
/// let limits = TaskLimits::default().total(4096).per_peer(16);
/// assert_eq!(limits.per_peer, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The maximum number of tasks of all clients.
    pub total: usize,
    /// The maximum number of tasks of one principal. Clients without a principal are counted by the network of their
    /// address or, if it is unknown, by their session.
    pub per_peer: usize,
}

impl Default for TaskLimits {
    /// Returns the default limits: 1024 tasks in total and 128 per peer.
    fn default() -> Self {
        Self { total: 1024, per_peer: 128 }
    }
}

impl TaskLimits {
    /// Sets the maximum number of tasks of all clients.
    #[must_use]
    pub fn total(mut self, total: usize) -> Self {
        self.total = total;
        self
    }

    /// Sets the maximum number of tasks of one principal, network or session.
    #[must_use]
    pub fn per_peer(mut self, per_peer: usize) -> Self {
        self.per_peer = per_peer;
        self
    }
}

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| json.member("extensions"));
    let tasks = extensions.and_then(|json| json.member(EXTENSION));
    tasks.is_some_and(RawJson::is_object)
}

/// Returns the error for a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}
