//! Waiting for changes of tasks, and notifying subscribers of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{sync::watch, task::AbortHandle};

use super::{
    encode::{self, TaskError},
    key::TaskKey,
    store::TaskStore,
    task::Task,
};
use crate::{
    backend::Backoff,
    cluster::{ReplicaHandler, Slot},
    engine::{outbox::Outbox, request::access::SenderAccess},
    handler::Encoding,
    jsonrpc::Id,
};

/// The changes that this process has made or heard of, for those of its futures that wait for them.
#[derive(Debug, Default)]
pub(super) struct TaskChanges(Mutex<Waiting>);

/// The tasks that are waited for, by id. The limits on tasks, calls and subscriptions bound their number.
type Waiting = HashMap<String, watch::Sender<Latest>>;

/// The latest version of a task that is known. `None` if it is unknown whether the task has changed.
type Latest = Option<u64>;

/// Waits for changes of one task. Changes that are announced after its creation are not missed.
#[derive(Debug)]
pub(super) struct ChangeReceiver {
    changes: Arc<TaskChanges>,
    id: String,
    latest: watch::Receiver<Latest>,
}

impl TaskChanges {
    pub(super) fn watch(self: &Arc<Self>, id: &str) -> ChangeReceiver {
        let mut waiting = self.waiting();
        let latest = waiting.entry(id.to_owned()).or_insert_with(|| watch::Sender::new(None)).subscribe();
        drop(waiting);
        ChangeReceiver { changes: Arc::clone(self), id: id.to_owned(), latest }
    }

    /// Wakes those that wait for a newer version of a task than they have seen.
    pub(super) fn announce(&self, id: &str, version: u64) {
        if let Some(latest) = self.waiting().get(id) {
            latest.send_if_modified(|latest| {
                let is_newer = latest.is_none_or(|latest| latest < version);
                *latest = (*latest).max(Some(version));
                is_newer
            });
        }
    }

    /// Encodes a change for other processes.
    pub(super) fn message(id: &str, version: u64) -> String {
        format!("{id} {version}")
    }

    /// Wakes all waiting requests: changes may have been missed.
    fn announce_all(&self) {
        for latest in self.waiting().values() {
            latest.send_replace(None);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Learns of the changes that other processes make.
impl ReplicaHandler for TaskChanges {
    fn message(&self, payload: &[u8]) {
        let message = std::str::from_utf8(payload).ok().and_then(|text| text.split_once(' '));
        if let Some((id, version)) = message.and_then(|(id, version)| Some((id, version.parse().ok()?))) {
            self.announce(id, version);
        }
    }

    fn missed(&self) {
        self.announce_all();
    }

    /// Tells the runners that their tasks may count as lost.
    fn lost(&self, _: Slot) {
        self.announce_all();
    }
}

impl ChangeReceiver {
    /// Waits until the task may have a newer version than this one. Dropping the future loses nothing.
    pub(super) async fn changed(&mut self, version: u64) {
        loop {
            // The sender exists as long as somebody waits.
            if self.latest.changed().await.is_err() {
                return std::future::pending().await;
            }
            if self.latest.borrow_and_update().is_none_or(|latest| latest > version) {
                return;
            }
        }
    }
}

impl Drop for ChangeReceiver {
    fn drop(&mut self) {
        let mut waiting = self.changes.waiting();
        if waiting.get(&self.id).is_some_and(|latest| latest.receiver_count() == 1) {
            waiting.remove(&self.id);
        }
    }
}

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
    store: Arc<TaskStore>,
    key: TaskKey,
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
    store: &Arc<TaskStore>,
    (owner, access): (&str, &SenderAccess),
    ids: Vec<String>,
    outbox: &Arc<Outbox>,
    encoding: &Arc<Encoding>,
    subscription_id: &Id<'_>,
) -> TaskWatch {
    let subscription_id: Arc<str> = subscription_id.as_json().into();
    let watched = ids.iter().filter_map(|id| TaskKey::new(owner, id)).map(|key| WatchedTask {
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_woken(watch: &mut ChangeReceiver, version: u64) -> bool {
        let changed = std::pin::pin!(watch.changed(version));
        matches!(changed.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn a_newer_version_wakes_those_who_wait() {
        let changes = Arc::new(TaskChanges::default());
        let (mut watch, mut other) = (changes.watch("1"), changes.watch("2"));
        assert!(!is_woken(&mut watch, 0));
        for (version, seen, expected) in [(1, 0, true), (1, 0, false), (2, 2, false), (1, 1, false), (3, 2, true)] {
            changes.announce("1", version);
            assert_eq!(is_woken(&mut watch, seen), expected, "{version} after {seen}");
        }
        assert!(!is_woken(&mut other, 0));
        ReplicaHandler::message(&*changes, TaskChanges::message("2", 7).as_bytes());
        assert!(is_woken(&mut other, 6));
        for invalid in ["", "2", "2 x", "2 8 9"] {
            ReplicaHandler::message(&*changes, invalid.as_bytes());
            assert!(!is_woken(&mut other, 0), "{invalid}");
        }
        changes.missed();
        assert!(is_woken(&mut watch, 9) && is_woken(&mut other, 9));
        drop((watch, other));
        assert!(changes.waiting().is_empty());
    }
}
