//! The choice of the request that sends the questions of a task, among the requests that wait for the task.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{
    key::TaskKey,
    store::TaskStore,
    task::{Task, TaskError},
};
use crate::{backend::Backoff, random::log_id};

/// A `tasks/result` request that can send the questions of its task.
///
/// If several requests wait for a task, the newest request sends the questions, because the stream of an older request
/// may be lost. The record of the task names that request, so requests in other processes respect it. When the request
/// ends, or its process is gone, another request takes over.
pub(super) struct TaskReader {
    store: Arc<TaskStore>,
    key: TaskKey,
    /// `None` until the request has claimed the right.
    id: Option<u64>,
    /// Whether the record may name this request.
    may_hold: bool,
}

impl TaskReader {
    pub(super) fn new(store: Arc<TaskStore>, key: TaskKey) -> Self {
        Self { store, key, id: None, may_hold: false }
    }

    /// Claims the right to send the questions of an unfinished task. The first call takes the right from any other
    /// request. Later calls take it only if no request has it, or if the process of the request that has it is gone.
    /// Returns the latest state of the task, or `None` if the task has expired.
    pub(super) async fn claim(&mut self, task: Task) -> Result<Option<Task>, TaskError> {
        let (id, holder) = (self.id, task.state.reader);
        if task.state.status.is_final() || (id.is_some() && self.is_in_use(holder).await?) {
            return Ok(Some(self.observe(task)));
        }
        let new_id = match id {
            Some(id) => id,
            None => self.store.new_request_id().await?,
        };
        (self.id, self.may_hold) = (Some(new_id), true);
        let must_watch = self.store.must_watch(&task);
        let claimed = self.store.update(task, |state| {
            state.is_watched |= must_watch;
            if id.is_none() || state.reader == holder {
                state.reader = Some(new_id);
            }
        });
        Ok(claimed.await?.task().map(|task| self.observe(task)))
    }

    /// Lets another request send the questions of a task, which this one cannot. Returns the latest state of the task, or
    /// `None` if it has expired.
    pub(super) async fn pass_on(&mut self, task: Task) -> Result<Option<Task>, TaskError> {
        if !self.may_ask(&task) {
            return self.store.begin_watching(task).await;
        }
        let id = self.id;
        let passed_on =
            self.store.update(task, |state| state.reader = state.reader.filter(|reader| Some(*reader) != id));
        Ok(passed_on.await?.task().map(|task| self.observe(task)))
    }

    /// Returns whether this request sends the questions of a task.
    pub(super) fn may_ask(&self, task: &Task) -> bool {
        self.id.is_some() && task.state.reader == self.id
    }

    /// Returns whether a request has the right and can still use it.
    async fn is_in_use(&self, holder: Option<u64>) -> Result<bool, TaskError> {
        match holder {
            Some(holder) if self.id == Some(holder) => Ok(true),
            Some(holder) => Ok(self.store.is_alive(holder).await?),
            None => Ok(false),
        }
    }

    fn observe(&mut self, task: Task) -> Task {
        self.may_hold = !task.state.status.is_final() && self.may_ask(&task);
        task
    }
}

/// Lets another request send the questions.
impl Drop for TaskReader {
    fn drop(&mut self) {
        if let (true, Some(id), Ok(runtime)) = (self.may_hold, self.id, Handle::try_current()) {
            runtime.spawn(release(Arc::clone(&self.store), self.key.clone(), id));
        }
    }
}

async fn release(store: Arc<TaskStore>, key: TaskKey, id: u64) {
    let mut backoff = Backoff::default();
    // The loop ends when the backend responds: a task that has expired by then has no questions.
    while let Err(error) = try_release(&store, &key, id).await {
        tracing::debug!(%error, task = log_id(key.id()), "cannot let another request send the questions of a task");
        backoff.wait().await;
    }
}

async fn try_release(store: &TaskStore, key: &TaskKey, id: u64) -> Result<(), TaskError> {
    let Some(task) = store.read(key).await? else { return Ok(()) };
    store.update(task, |state| state.reader = state.reader.filter(|reader| *reader != id)).await?;
    Ok(())
}
