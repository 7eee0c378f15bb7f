//! Changes to the record of a task.

use crate::{
    backend::{TaskRecord, TaskStatus, TaskStore, TaskStoreError, time::now},
    error::Fault,
};

/// Makes the status of a task that has not ended fit what it asks.
pub(super) fn set_status(task: &mut TaskRecord) {
    let waits = task.inputs.iter().any(|input| input.answer.is_none());
    task.status = if waits { TaskStatus::InputRequired } else { TaskStatus::Working };
}

/// What became of a change.
pub(super) enum Changed {
    /// It was made, or would have changed nothing.
    Done(TaskRecord),
    /// The task had ended already, like this.
    Ended(TaskRecord),
    /// The task's time is over.
    Gone,
}

impl Changed {
    pub(super) fn into_task(self) -> Option<TaskRecord> {
        match self {
            Self::Done(task) | Self::Ended(task) => Some(task),
            Self::Gone => None,
        }
    }
}

/// Changes a task that has not ended; again from the start if somebody else was faster.
pub(super) async fn change(
    store: &dyn TaskStore,
    mut task: TaskRecord,
    mut apply: impl FnMut(&mut TaskRecord) + Send,
) -> Result<Changed, TaskStoreError> {
    loop {
        if task.status.is_final() {
            return Ok(Changed::Ended(task));
        }
        let mut changed = task.clone();
        apply(&mut changed);
        if changed == task {
            return Ok(Changed::Done(task));
        }
        changed.version += 1;
        changed.updated = now();
        if store.replace(changed.clone()).await? {
            return Ok(Changed::Done(changed));
        }
        match store.load(&task.id).await? {
            Some(newer) => task = newer,
            None => return Ok(Changed::Gone),
        }
    }
}

/// Says that a store failed; why, only the log knows.
pub(super) fn failed(error: &TaskStoreError) -> Fault {
    tracing::error!(%error, "the store of tasks failed");
    Fault::internal("the tasks cannot be reached")
}
