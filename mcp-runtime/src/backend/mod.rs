//! What outlives a connection, behind traits that several processes may share a store by.
//!
//! Nothing here knows the protocol: what stands in a store is data, and what becomes of it the engine decides.

mod memory;
mod task;
pub(crate) mod time;

pub use memory::MemoryTasks;
pub use task::{Stored, TaskInput, TaskOutcome, TaskRecord, TaskRoom, TaskStatus, TaskStore, TaskStoreError};
