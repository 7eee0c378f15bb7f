use std::time::Duration;

/// What clients may have of tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskTerms {
    /// How long a task is kept, where its client does not say.
    pub(crate) ttl: Duration,
    /// The longest that a task is kept.
    pub(crate) longest: Duration,
    /// How often clients should ask.
    pub(crate) poll: Duration,
    /// The most tasks that are kept.
    pub(crate) in_all: usize,
    /// The most tasks that are kept of one principal, or of one session.
    pub(crate) of_owner: usize,
}

impl Default for TaskTerms {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3600),
            longest: Duration::from_secs(24 * 3600),
            poll: Duration::from_secs(1),
            in_all: 1024,
            of_owner: 128,
        }
    }
}
