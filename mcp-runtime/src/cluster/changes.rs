//! Changes that the processes of a service announce to each other.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::change_set::ChangeSet;
use crate::{
    backend::{Backend, Backoff, TopicEvent, respond},
    race::race,
    random,
    registry::Kinds,
};

/// The topic of all changes.
const TOPIC: &str = "mcp/1/changes";
/// The minimum time between two announcements. Changes in the meantime are announced together.
const INTERVAL: Duration = Duration::from_millis(20);
/// The time for which a subscription must last to count as a success.
const STABLE: Duration = Duration::from_secs(5);
/// How long a server that shuts down waits until its last changes are announced.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The changes that this process has made and announces, and the source of those that other processes announce.
///
/// Nothing is lost while the backend fails: what could not be announced is kept and announced later, and what others
/// may have announced in the meantime is replaced with [`ChangeSet::everything`].
#[derive(Debug)]
pub(crate) struct SharedChanges {
    backend: Arc<dyn Backend>,
    /// Distinguishes this process from the others. Without it, the process also receives its own announcements.
    id: Option<String>,
    state: Mutex<State>,
    /// Wakes [`publish`](Self::publish).
    changed: Notify,
    /// Wakes [`flush`](Self::flush).
    announced: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The changes that have not been announced.
    pending: ChangeSet,
    is_publishing: bool,
}

impl SharedChanges {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, id: random::id(), state: Mutex::default(), changed: Notify::new(), announced: Notify::new() }
    }

    /// Announces that the lists of these kinds have changed.
    pub(crate) fn lists_changed(&self, kinds: Kinds) {
        self.state().pending.insert_lists(kinds);
        self.changed.notify_one();
    }

    /// Announces that a resource has changed.
    pub(crate) fn resource_updated(&self, uri: &str) {
        self.state().pending.insert_resource(uri);
        self.changed.notify_one();
    }

    /// Waits until all changes are announced, for at most half a second.
    pub(crate) async fn flush(&self) {
        let is_flushed = || {
            let state = self.state();
            state.pending.is_empty() && !state.is_publishing
        };
        let flushed = async {
            loop {
                let mut announced = pin!(self.announced.notified());
                announced.as_mut().enable();
                if is_flushed() {
                    return;
                }
                announced.await;
            }
        };
        if !is_flushed() && tokio::time::timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
            tracing::warn!("the last changes could not be announced to the other processes");
        }
    }

    /// Announces changes, and passes those of other processes to `deliver`. Never completes.
    pub(crate) async fn run(&self, deliver: impl Fn(ChangeSet)) {
        let _ = race(self.publish(), self.receive(deliver)).await;
    }

    async fn publish(&self) {
        let mut backoff = Backoff::default();
        loop {
            self.changed.notified().await;
            let Some(publishing) = Publishing::begin(self) else { continue };
            let message = publishing.changes.encode(self.id.as_deref());
            match respond(self.backend.publish(TOPIC, message)).await {
                Ok(()) => {
                    publishing.complete();
                    backoff.reset();
                    tokio::time::sleep(INTERVAL).await;
                }
                Err(error) => {
                    if backoff.is_reset() {
                        tracing::warn!(%error, "changes cannot be announced to other processes: retrying");
                    }
                    drop(publishing);
                    backoff.wait().await;
                }
            }
        }
    }

    async fn receive(&self, deliver: impl Fn(ChangeSet)) {
        let mut backoff = Backoff::default();
        loop {
            let subscribed = respond(self.backend.subscribe(TOPIC)).await;
            let since = Instant::now();
            let ended = match subscribed {
                Ok(mut subscription) => {
                    // What was announced before is unknown.
                    deliver(ChangeSet::everything());
                    while let Some(event) = subscription.next().await {
                        self.received(&event).into_iter().for_each(&deliver);
                    }
                    "the subscription has ended".to_owned()
                }
                Err(error) => error.to_string(),
            };
            if since.elapsed() >= STABLE {
                backoff.reset();
            }
            if backoff.is_reset() {
                tracing::warn!(reason = ended, "changes of other processes are not received: subscribing again");
            }
            backoff.wait().await;
        }
    }

    /// Returns what has changed in other processes.
    fn received(&self, event: &TopicEvent) -> Option<ChangeSet> {
        let TopicEvent::Message(message) = event else { return Some(ChangeSet::everything()) };
        let Some((from, changes)) = ChangeSet::decode(message) else {
            tracing::warn!("another process has announced changes in an unknown format");
            return Some(ChangeSet::everything());
        };
        let is_own = from.is_some() && from == self.id;
        (!is_own).then_some(changes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes that are being announced. Unless that completes, they are pending again when this is dropped.
struct Publishing<'a> {
    shared: &'a SharedChanges,
    changes: ChangeSet,
}

impl<'a> Publishing<'a> {
    /// Takes the pending changes. Returns `None` if there are none.
    fn begin(shared: &'a SharedChanges) -> Option<Self> {
        let mut state = shared.state();
        let changes = std::mem::take(&mut state.pending);
        state.is_publishing = !changes.is_empty();
        // Created only if needed, since dropping it locks the state.
        state.is_publishing.then(|| Self { shared, changes })
    }

    fn complete(mut self) {
        self.changes = ChangeSet::default();
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        let mut state = self.shared.state();
        state.is_publishing = false;
        state.pending.merge(changes);
        let is_pending = !state.pending.is_empty();
        drop(state);
        if is_pending {
            self.shared.changed.notify_one();
        }
        self.shared.announced.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    /// A change may be announced before its wake-up is handled.
    #[test]
    fn nothing_is_announced_twice() {
        let shared = SharedChanges::new(Arc::new(MemoryBackend::default()));
        shared.resource_updated("a:b");
        let publishing = Publishing::begin(&shared);
        assert!(publishing.is_some());
        publishing.into_iter().for_each(Publishing::complete);
        assert!(Publishing::begin(&shared).is_none());
    }
}
