//! The options of tasks.

use std::time::Duration;

use crate::backend::TaskLimits;

/// The options of a server's tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskOptions {
    /// How long a task is kept if its client does not say.
    pub(crate) default_ttl: Duration,
    /// The longest time that a client can have a task kept.
    pub(crate) max_ttl: Duration,
    /// How often clients should poll.
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
