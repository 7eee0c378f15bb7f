//! The options of tasks.

use std::time::Duration;

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
/// let limits = TaskLimits::default().total(4096).per_owner(16);
/// assert_eq!(limits.per_owner, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The maximum number of tasks of all clients.
    pub total: usize,
    /// The maximum number of tasks of one principal. Clients without a principal are counted by the network of their
    /// address or, if it is unknown, by their session.
    pub per_owner: usize,
}

impl Default for TaskLimits {
    /// Returns the default limits: 1024 tasks in total and 128 per owner.
    fn default() -> Self {
        Self { total: 1024, per_owner: 128 }
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
    pub fn per_owner(mut self, per_owner: usize) -> Self {
        self.per_owner = per_owner;
        self
    }
}
