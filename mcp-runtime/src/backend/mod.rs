//! State that outlives a connection, behind traits, so that several processes can share a store.
//!
//! This layer stores records and knows nothing about the protocol. The engine decides what happens to the records.

mod memory;
mod record;
mod store;
pub(crate) mod time;

pub use memory::MemoryTasks;
pub use record::{InputResponse, TaskCursor, TaskInput, TaskOutcome, TaskRecord, TaskStatus};
pub use store::{StoreFuture, TaskLimits, TaskStore, TaskStoreError};
pub use time::Timestamp;
