//! State that outlives a connection, behind traits, so that several processes can share a store.
//!
//! This layer stores tasks and records and knows nothing about the protocol. Other layers decide what happens to them.

mod memory;
mod memory_records;
mod record;
mod records;
mod store;
pub(crate) mod time;

pub use memory::MemoryTasks;
pub use memory_records::MemoryRecords;
pub use record::{InputResponse, TaskCursor, TaskInput, TaskOutcome, TaskRecord, TaskStatus};
pub use records::{Record, RecordCondition, RecordVersion, Records, RecordsError, RecordsFuture};
pub use store::{StoreFuture, TaskLimits, TaskStore, TaskStoreError};
pub use time::Timestamp;
