//! State that outlives a connection, behind traits, so that several processes can share a store.
//!
//! This layer stores bytes and knows nothing about the protocol. Other layers decide what happens to them.

#[allow(clippy::module_inception)]
mod backend;
mod backoff;
pub(crate) mod clock;
mod connector;
mod deadline;
mod error;
mod fault;
mod logs;
mod memory_backend;
mod memory_logs;
mod memory_records;
mod memory_topics;
mod records;
pub(crate) mod time;
mod topics;

pub use backend::Backend;
pub(crate) use backoff::Backoff;
pub(crate) use clock::BackendClock;
pub use connector::{BackendConnector, connected};
pub(crate) use deadline::{BACKEND_TIMEOUT, respond};
pub use error::{BackendError, BackendFuture};
pub use logs::{Append, LogBounds, LogEntry, LogPosition, Logs};
pub use memory_backend::MemoryBackend;
pub use memory_records::MemoryRecords;
pub use records::{Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Records};
pub use time::Timestamp;
pub use topics::{TopicEvent, TopicSender, TopicSubscription, Topics};
