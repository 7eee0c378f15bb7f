//! Updates of the record of a task.

use crate::backend::{TaskInput, TaskRecord, TaskStatus, TaskStore, TaskStoreError, Timestamp};

/// The outcome of updating a record.
pub(super) enum Updated {
    /// The update was applied, with this record as the result.
    Applied(TaskRecord),
    /// The task had already finished, and its record is unchanged.
    Finished(TaskRecord),
    /// The task has expired.
    Expired,
}

/// Updates the record of an unfinished task. If another process changes the record at the same time, applies the update
/// again to the changed record.
pub(super) async fn update(
    store: &dyn TaskStore,
    mut task: TaskRecord,
    mut apply: impl FnMut(&mut TaskRecord) + Send,
) -> Result<Updated, TaskStoreError> {
    loop {
        if task.status.is_final() {
            return Ok(Updated::Finished(task));
        }
        let mut changed = task.clone();
        apply(&mut changed);
        if changed == task {
            return Ok(Updated::Applied(task));
        }
        changed.version += 1;
        changed.updated = Timestamp::now();
        if store.replace(changed.clone()).await? {
            return Ok(Updated::Applied(changed));
        }
        match store.load(&task.id).await? {
            Some(newer) => task = newer,
            None => return Ok(Updated::Expired),
        }
    }
}

/// Sets the status of an unfinished task according to its pending inputs.
pub(super) fn set_status(task: &mut TaskRecord) {
    let is_waiting = task.inputs.iter().any(TaskInput::is_pending);
    task.status = if is_waiting { TaskStatus::InputRequired } else { TaskStatus::Working };
}
