//! The errors of requests about tasks.

use std::{fmt, time::Duration};

use super::options::TaskLimits;
use crate::{backend::BackendError, error::Fault};

/// The error of an operation on the record of a task.
#[derive(Debug)]
pub(super) enum TaskError {
    Backend(BackendError),
    /// The record exists, but this release cannot read it.
    Unreadable(String),
}

impl TaskError {
    pub(super) fn unreadable(reason: &dyn fmt::Display) -> Self {
        Self::Unreadable(reason.to_string())
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::Unreadable(reason) => write!(f, "the record of a task cannot be read: {reason}"),
        }
    }
}

impl From<BackendError> for TaskError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

/// The client may retry the request, which may reach a process with a release that can read the task.
impl From<TaskError> for Fault {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Backend(error) => error.into(),
            TaskError::Unreadable(_) => {
                tracing::error!(%error, "a request about a task fails");
                Self::overloaded("the task exists, but this release of the server cannot read it: retry later")
            }
        }
    }
}

/// Returns the error of a task that failed because the backend did.
pub(super) fn backend_failed() -> Fault {
    Fault::internal("the state of the task could not be stored")
}

/// Returns the error of a task whose result was dropped.
pub(super) fn result_too_large() -> Fault {
    Fault::overloaded(
        "the result of the task is too large to be kept with the others of this client: retry when they have expired",
    )
}

/// Returns the error for a client that has too many tasks, of which the first expires after some time.
pub(super) fn too_many_of_client(limits: TaskLimits, expires: Option<Duration>) -> Fault {
    let retry = expires.map_or_else(|| "later".to_owned(), |after| format!("in {} seconds", after.as_secs() + 1));
    Fault::overloaded(format!(
        "too many tasks: the limit is {} of one client, finished ones included: retry {retry}",
        limits.per_owner
    ))
}

/// Returns the error for a client whose task exceeds the number of tasks of all clients.
pub(super) fn too_many_in_total(limits: TaskLimits) -> Fault {
    Fault::overloaded(format!("too many tasks: the limit is {} of all clients: retry later", limits.total))
}

/// Returns the error for a task that does not exist, has expired or belongs to another owner.
pub(super) fn not_found() -> Fault {
    Fault::invalid_params("task not found or expired")
}
