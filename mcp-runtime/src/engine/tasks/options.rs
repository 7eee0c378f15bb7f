//! The options of tasks.

use std::time::Duration;

use super::limits::TaskLimits;

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
