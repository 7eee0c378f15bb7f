//! State that outlives a connection, behind traits, so that several processes can share a store.
//!
//! A [`Backend`] consists of [`Records`], [`EventLogs`] and [`Topics`]. [`Server::backend`](crate::Server::backend) sets the
//! backend of a server, and [`backend_connector!`](crate::backend_connector) registers one for the command line. The
//! guide explains them in [Replicas](crate::guide::replicas).

#[cfg(feature = "cluster")]
pub(crate) mod connector;
mod error;
#[cfg(feature = "backend")]
mod logs;
#[cfg(feature = "backend")]
mod memory_backend;
#[cfg(feature = "backend")]
mod memory_records;
#[cfg(feature = "backend")]
mod records;
pub(crate) mod time;
#[cfg(feature = "backend")]
mod timing;
#[cfg(feature = "backend")]
mod topics;

#[cfg(feature = "backend")]
pub use self::{
    logs::{Append, EventLogEntry, EventLogs, LogBounds, LogPosition},
    memory_backend::MemoryBackend,
    memory_records::MemoryRecords,
    records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records},
    topics::{TopicEvent, TopicSender, TopicSubscription, Topics},
};
#[cfg(feature = "cluster")]
pub use connector::BackendConnector;
#[cfg(feature = "cluster")]
pub(crate) use connector::MeasuredBackend;
pub use error::{BackendError, BackendFuture};
pub use time::Timestamp;
#[cfg(feature = "backend")]
pub(crate) use timing::{Availability, BACKEND_TIMEOUT, BackendClock, Backoff, CircuitBreaker, with_timeout};
#[cfg(feature = "cluster")]
pub(crate) use {logs::forward_logs, records::forward_records, topics::forward_topics};

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
#[cfg(feature = "backend")]
pub trait Backend: Records + EventLogs + Topics {}

#[cfg(feature = "backend")]
impl<T: Records + EventLogs + Topics + ?Sized> Backend for T {}

/// The backend of a server. Without the feature `backend`, it has none.
#[cfg(feature = "backend")]
pub(crate) type ServerBackend = std::sync::Arc<dyn Backend>;
#[cfg(not(feature = "backend"))]
#[derive(Debug, Clone)]
pub(crate) struct ServerBackend;
