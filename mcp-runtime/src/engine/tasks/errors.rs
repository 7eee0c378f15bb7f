//! The errors of requests about tasks.

use crate::error::Fault;

/// Returns the error of a task that failed because the backend did.
pub(super) fn backend_failed() -> Fault {
    Fault::internal("the state of the task could not be stored")
}

/// Returns the error of a task whose result was dropped.
pub(super) fn result_too_large() -> Fault {
    Fault::overloaded("the result of the task is too large to be kept with those of other tasks")
}

/// Returns the error for a task that does not exist, has expired or belongs to another owner.
pub(super) fn not_found() -> Fault {
    Fault::invalid_params("task not found or expired")
}
