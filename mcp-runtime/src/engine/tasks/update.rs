//! Updates of tasks.

use super::{
    store::TaskStore,
    task::{Task, TaskState},
};
use crate::backend::{BackendError, Timestamp};

/// The outcome of an update.
pub(super) enum Updated {
    /// The update was applied, with this task as the result.
    Applied(Task),
    /// The task had already finished, and is unchanged.
    Finished(Task),
    /// The task has expired.
    Expired,
}

/// Updates an unfinished task. If another process changes it at the same time, applies the update again to the changed
/// state.
pub(super) async fn update(
    store: &TaskStore,
    mut task: Task,
    mut apply: impl FnMut(&mut TaskState) + Send,
) -> Result<Updated, BackendError> {
    loop {
        if task.state.status.is_final() {
            return Ok(Updated::Finished(task));
        }
        let mut changed = task.state.clone();
        apply(&mut changed);
        if changed == task.state {
            return Ok(Updated::Applied(task));
        }
        changed.version += 1;
        changed.updated = Timestamp::now();
        if let Some(replaced) = store.replace(&task, changed).await? {
            return Ok(Updated::Applied(replaced));
        }
        match store.read(&task.key).await? {
            Some(newer) => task = newer,
            None => return Ok(Updated::Expired),
        }
    }
}
