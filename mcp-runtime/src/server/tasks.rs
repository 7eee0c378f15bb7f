use std::time::Duration;

use super::Server;
use crate::engine::TaskLimits;

/// Limiting tasks.
impl Server {
    /// Sets the time to live, counted from creation, of tasks whose client does not request one. The default is one
    /// hour. An expired task is deleted, and cancelled if it is still running.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.task_ttl(Duration::from_secs(10 * 60))
    /// # }
    /// ```
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.default_ttl = ttl;
        self
    }

    /// Sets the maximum time to live that a client may request for a task. The default is one day.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.max_task_ttl(Duration::from_secs(60 * 60))
    /// # }
    /// ```
    pub fn max_task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.max_ttl = ttl;
        self
    }

    /// Sets the interval at which clients should poll their tasks. The default is one second.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.task_poll_interval(Duration::from_secs(10))
    /// # }
    /// ```
    pub fn task_poll_interval(mut self, interval: Duration) -> Self {
        self.profile.limits.tasks.poll_interval = interval;
        self
    }

    /// Sets how many tasks the server keeps, finished ones included. Calls that would exceed the limits are rejected,
    /// or run as plain calls if their tool allows it.
    ///
    /// ```
    /// # use mcp_runtime::{Server, TaskLimits};
    /// # fn configure(server: Server) -> Server {
    /// server.max_tasks(TaskLimits::default().total(10_000).per_owner(50))
    /// # }
    /// ```
    pub fn max_tasks(mut self, limits: TaskLimits) -> Self {
        self.profile.limits.tasks.limits = limits;
        self
    }
}
