//! The errors of requests about tasks.

use crate::{backend::TaskStoreError, error::Fault};

/// Returns the error for a failed store. The reason is logged and not sent to the client.
pub(super) fn store_failed(error: &TaskStoreError) -> Fault {
    tracing::error!(%error, "the task store failed");
    store_unavailable()
}

pub(super) fn store_unavailable() -> Fault {
    Fault::internal("the task store is unavailable")
}

/// Returns the error for a task that does not exist, has expired or belongs to another owner.
pub(super) fn not_found() -> Fault {
    Fault::invalid_params("task not found or expired")
}
