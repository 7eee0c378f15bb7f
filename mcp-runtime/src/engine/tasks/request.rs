//! A request about one task.

use std::sync::Arc;

use super::{
    create::Tasks,
    errors::{not_found, store_failed},
};
use crate::{backend::TaskRecord, error::Fault, handler::Encoding};

/// A request about one task.
pub(super) struct TaskRequest {
    pub(super) tasks: Arc<Tasks>,
    pub(super) encoding: Arc<Encoding>,
    /// The owner that the request comes from.
    pub(super) owner: String,
    pub(super) id: String,
}

impl TaskRequest {
    /// Loads the task.
    ///
    /// # Errors
    ///
    /// Fails if the task does not exist or belongs to another owner, or if the store fails.
    pub(super) async fn load(&self) -> Result<TaskRecord, Fault> {
        let found = self.tasks.store.load(&self.id).await.map_err(|error| store_failed(&error))?;
        found.filter(|task| task.owner == self.owner).ok_or_else(not_found)
    }
}
