//! Notifications about tasks for `subscriptions/listen`.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
};

use tokio::{task::AbortHandle, time::sleep};

use super::encode;
use crate::{
    backend::{TaskRecord, TaskStore, TaskStoreError, Timestamp},
    engine::{outbox::Outbox, request::sender_access::SenderAccess},
    handler::Encoding,
    jsonrpc::Id,
};

/// The maximum number of tasks in one subscription.
pub(crate) const MAX_WATCHED_TASKS: usize = 128;

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
    store: Arc<dyn TaskStore>,
    owner: Arc<str>,
    id: String,
    /// The scopes by which it is decided what the subscriber may read.
    access: SenderAccess,
    outbox: Weak<Outbox>,
    encoding: Arc<Encoding>,
    /// The id of the subscription, as JSON.
    subscription_id: Arc<str>,
}

/// Notifies a subscription of the current state of each task and of every change to it. Tasks that the subscriber does
/// not own, or for whose results it lacks scopes, cause no notifications.
pub(crate) fn watch_tasks(
    store: &Arc<dyn TaskStore>,
    (owner, access): (&str, &SenderAccess),
    ids: Vec<String>,
    outbox: &Arc<Outbox>,
    encoding: &Arc<Encoding>,
    subscription_id: &Id<'_>,
) -> TaskWatch {
    let (owner, subscription_id): (Arc<str>, Arc<str>) = (owner.into(), subscription_id.as_json().into());
    let watched = ids.into_iter().map(|id| WatchedTask {
        store: Arc::clone(store),
        owner: Arc::clone(&owner),
        id,
        access: access.clone(),
        outbox: Arc::downgrade(outbox),
        encoding: Arc::clone(encoding),
        subscription_id: Arc::clone(&subscription_id),
    });
    TaskWatch(watched.map(|watched| tokio::spawn(watched.run()).abort_handle()).collect())
}

impl WatchedTask {
    /// Sends the current state of the task, then every change to it.
    async fn run(self) {
        if let Err(error) = self.try_run().await {
            tracing::error!(%error, "the task store failed, ending the notifications about a task");
        }
    }

    async fn try_run(&self) -> Result<(), TaskStoreError> {
        let may_read = |task: &TaskRecord| *task.owner == *self.owner && self.access.grants(&task.scopes);
        while let Some(task) = self.store.load(&self.id).await?.filter(may_read) {
            let Some(outbox) = self.outbox.upgrade() else { break };
            let sent = outbox.offer(&encode::task_notification(&self.encoding, &task, &self.subscription_id));
            drop(outbox);
            if let Err(drained) = sent {
                // The task may have changed by the time the outbox has room, so it is loaded again.
                drained.await;
                continue;
            }
            if task.status.is_final() {
                break;
            }
            self.changed(&task).await?;
        }
        Ok(())
    }

    /// Waits until the task changes or expires.
    async fn changed(&self, task: &TaskRecord) -> Result<(), TaskStoreError> {
        let mut changed = self.store.changed(&self.id, task.version);
        let mut expiry = pin!(sleep(task.expires().saturating_duration_since(Timestamp::now())));
        poll_fn(|cx| match changed.as_mut().poll(cx) {
            Poll::Ready(changed) => Poll::Ready(changed),
            Poll::Pending => expiry.as_mut().poll(cx).map(Ok),
        })
        .await
    }
}
