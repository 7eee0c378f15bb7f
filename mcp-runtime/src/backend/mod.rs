//! State that outlives a connection, behind traits, so that several processes can share a store.
//!
//! A [`Backend`] consists of [`Records`], [`EventLogs`] and [`Topics`]. [`Server::backend`](crate::Server::backend) sets the
//! backend of a server, and [`backend_connector!`](crate::backend_connector) registers one for the command line. The
//! guide explains them in [Replicas](crate::guide::replicas).

#[cfg(feature = "cluster")]
pub(crate) mod connector;
mod error;
mod logs;
#[cfg(feature = "cluster")]
mod measured;
mod memory_backend;
mod memory_logs;
mod memory_records;
mod records;
#[cfg(any(feature = "cluster", feature = "http", feature = "tasks"))]
#[cfg_attr(
    not(all(feature = "cluster", feature = "http")),
    allow(dead_code, reason = "only sessions and rate limits do without a backend that has failed")
)]
mod retry;
pub(crate) mod time;
mod topics;

#[cfg(feature = "cluster")]
pub use connector::BackendConnector;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use error::Warnings;
pub use error::{BackendError, BackendFuture};
pub use logs::{Append, EventLogEntry, EventLogs, LogBounds, LogPosition};
#[cfg(feature = "cluster")]
pub(crate) use measured::MeasuredBackend;
pub use memory_backend::MemoryBackend;
pub use memory_records::MemoryRecords;
pub use records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records};
#[cfg(any(feature = "cluster", feature = "http"))]
pub(crate) use retry::BACKEND_TIMEOUT;
#[cfg(any(feature = "cluster", feature = "http", feature = "tasks"))]
pub(crate) use retry::Backoff;
#[cfg(any(feature = "cluster", feature = "tasks"))]
pub(crate) use retry::with_timeout;
#[cfg(all(feature = "cluster", any(feature = "http", feature = "rate-limit")))]
pub(crate) use retry::{Availability, CircuitBreaker};
pub(crate) use time::BackendClock;
pub use time::Timestamp;
pub use topics::{TopicEvent, TopicSender, TopicSubscription, Topics};

/// State shared by the processes of one service: [`Records`], [`EventLogs`] and [`Topics`]. Implemented by every type that
/// implements the three.
///
/// A backend knows only bytes. The runtime decides what a session, an event stream or a task is.
///
/// ```
/// use mcp_runtime::backend::{Backend, MemoryBackend};
///
/// fn shared(backend: &dyn Backend) {
///     println!("{backend:?}");
/// }
///
/// shared(&MemoryBackend::default());
/// ```
pub trait Backend: Records + EventLogs + Topics {}

impl<T: Records + EventLogs + Topics + ?Sized> Backend for T {}
