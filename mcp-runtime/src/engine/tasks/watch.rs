//! Notifications about tasks for `subscriptions/listen`.

use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

use super::{
    encode,
    key::TaskKey,
    store::TaskStore,
    task::{Task, TaskError},
};
use crate::{
    backend::Backoff,
    engine::{outbox::Outbox, request::source::SenderAccess},
    handler::Encoding,
    jsonrpc::Id,
};

/// The tokio tasks that send notifications about the tasks of a subscription. Dropping the watch aborts them.
#[derive(Debug)]
pub(crate) struct TaskWatch(Vec<AbortHandle>);

impl Drop for TaskWatch {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// A task that a subscription covers.
struct WatchedTask {
    store: Arc<TaskStore>,
    key: TaskKey,
    /// The scopes that decide what the subscriber may read.
    access: SenderAccess,
    outbox: Weak<Outbox>,
    encoding: Arc<Encoding>,
    /// The id of the subscription, as JSON.
    subscription_id: Arc<str>,
}

/// Notifies a subscription of the current state of each task and of every change to it. Tasks that the subscriber does
/// not own, or for whose results it lacks scopes, cause no notifications.
pub(crate) fn watch_tasks(
    store: &Arc<TaskStore>,
    (owner, access): (&str, &SenderAccess),
    ids: Vec<String>,
    outbox: &Arc<Outbox>,
    encoding: &Arc<Encoding>,
    subscription_id: &Id,
) -> TaskWatch {
    let subscription_id: Arc<str> = subscription_id.as_json().into();
    let watched = ids.iter().filter_map(|id| store.key(owner, id)).map(|key| WatchedTask {
        store: Arc::clone(store),
        key,
        access: access.clone(),
        outbox: Arc::downgrade(outbox),
        encoding: Arc::clone(encoding),
        subscription_id: Arc::clone(&subscription_id),
    });
    TaskWatch(watched.map(|watched| tokio::spawn(watched.run()).abort_handle()).collect())
}

impl WatchedTask {
    /// Sends the current state of the task, then every change to it. If the backend fails, continues when it is back.
    async fn run(self) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.try_run(&mut backoff).await {
            tracing::warn!(%error, "the backend failed, retrying to send notifications about a task");
            backoff.wait().await;
        }
    }

    /// Loads the task, and records that this process waits for its changes.
    async fn load(&self) -> Result<Option<Task>, TaskError> {
        match self.store.load(&self.key).await? {
            Some(task) if self.access.grants(&task.state.scopes) => self.store.begin_watching(task).await,
            _ => Ok(None),
        }
    }

    async fn try_run(&self, backoff: &mut Backoff) -> Result<(), TaskError> {
        let mut changes = self.store.watch(&self.key).await;
        let mut sent_version = None;
        while let Some(task) = self.load().await? {
            backoff.reset();
            let Some(outbox) = self.outbox.upgrade() else { break };
            if sent_version != Some(task.state.version) {
                let outcome = self.store.outcome(&task).await?;
                let notification =
                    encode::task_notification(&self.encoding, &task, outcome.as_deref(), &self.subscription_id);
                let sent = outbox.offer(&notification);
                drop(outbox);
                if let Err(drained) = sent {
                    // The task may have changed by the time the outbox has room, so it is loaded again.
                    drained.await;
                    continue;
                }
                sent_version = Some(task.state.version);
            }
            if task.state.status.is_final() {
                break;
            }
            changes.changed(&task).await;
        }
        Ok(())
    }
}
