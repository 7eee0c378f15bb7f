//! Tells of tasks by `subscriptions/listen`.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use tokio::{task::AbortHandle, time::sleep};

use super::encode;
use crate::{
    backend::{TaskRecord, TaskStore, TaskStoreError, time::now},
    engine::outbox::Outbox,
    handler::Encoding,
    jsonrpc::Id,
};

/// The most tasks that one request may listen to.
pub(crate) const WATCHED_TASKS: usize = 128;

/// Tells of tasks until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch(Vec<AbortHandle>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// One task, and whoever is told of it.
struct Watched {
    store: Arc<dyn TaskStore>,
    owner: Arc<str>,
    task: String,
    outbox: Weak<Outbox>,
    encoding: Arc<Encoding>,
    /// The JSON of the id that it is told under.
    tag: Arc<str>,
}

/// Sends each of these tasks to the client, now and whenever it changes.
pub(crate) fn watch_tasks(
    store: &Arc<dyn TaskStore>,
    owner: &str,
    ids: Vec<String>,
    outbox: &Arc<Outbox>,
    encoding: &Arc<Encoding>,
    request: &Id<'_>,
) -> Watch {
    let (owner, tag): (Arc<str>, Arc<str>) = (owner.into(), request.as_json().into());
    let watched = ids.into_iter().map(|task| Watched {
        store: Arc::clone(store),
        owner: Arc::clone(&owner),
        task,
        outbox: Arc::downgrade(outbox),
        encoding: Arc::clone(encoding),
        tag: Arc::clone(&tag),
    });
    Watch(watched.map(|watched| tokio::spawn(watched.tell()).abort_handle()).collect())
}

impl Watched {
    async fn tell(self) {
        if let Err(error) = self.try_tell().await {
            tracing::error!(%error, "the store of tasks failed, so that a change of a task is not told");
        }
    }

    async fn try_tell(&self) -> Result<(), TaskStoreError> {
        while let Some(task) = self.store.load(&self.task).await?.filter(|task| *task.owner == *self.owner) {
            let Some(outbox) = self.outbox.upgrade() else { break };
            let told = outbox.offer(&encode::told(&self.encoding, &task, &self.tag));
            drop(outbox);
            if let Err(emptied) = told {
                // What there is to tell by then may be newer.
                emptied.await;
                continue;
            }
            if task.status.is_final() {
                break;
            }
            self.changed(&task).await?;
        }
        Ok(())
    }

    /// Waits until there is something new to tell, or nothing any more.
    async fn changed(&self, task: &TaskRecord) -> Result<(), TaskStoreError> {
        let mut changed = self.store.changed(&self.task, task.version);
        let mut expiry = pin!(sleep(Duration::from_millis(task.expires().saturating_sub(now()))));
        poll_fn(|cx| match changed.as_mut().poll(cx) {
            Poll::Ready(changed) => Poll::Ready(changed),
            Poll::Pending => expiry.as_mut().poll(cx).map(Ok),
        })
        .await
    }
}
