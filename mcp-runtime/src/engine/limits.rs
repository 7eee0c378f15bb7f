use std::time::Duration;

use super::tasks::options::TaskOptions;

/// The limits on what a client may use.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The maximum size of a message in bytes.
    pub(crate) message: usize,
    /// The maximum number of calls in flight per connection. Further calls are rejected.
    pub(crate) in_flight: usize,
    /// The maximum number of messages in a batch.
    pub(crate) batch: usize,
    /// The number of unread output bytes at which the server stops reading from the client.
    pub(crate) unread: usize,
    /// The timeout of functions that do not declare their own. `None` means no timeout.
    pub(crate) timeout: Option<Duration>,
    /// How long calls in flight may continue after the end of the connection.
    pub(crate) grace: Duration,
    /// The maximum number of items on a page of a list.
    pub(crate) page: usize,
    /// How long clients may cache lists and the server's description.
    pub(crate) list_ttl: Duration,
    /// How long a client may take to answer a question.
    pub(crate) answer: Duration,
    /// How long a client may take between two rounds of a request.
    pub(crate) round: Duration,
    pub(crate) tasks: TaskOptions,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 16 << 20,
            in_flight: 1024,
            batch: 100,
            unread: 1 << 20,
            timeout: Some(Duration::from_secs(300)),
            grace: Duration::from_secs(5),
            page: 1000,
            list_ttl: Duration::from_secs(60),
            answer: Duration::from_secs(600),
            round: Duration::from_secs(3600),
            tasks: TaskOptions::default(),
        }
    }
}
