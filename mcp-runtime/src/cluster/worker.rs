//! The due work of a replica for its shared sessions, the worker that does it, and the renewal of the sessions in use.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet, time::sleep};

use super::sessions::ReplicaSessions;
use crate::backend::Backoff;

/// A job of a replica for a session, which is given by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Take the answer to a question of this replica, which another replica has stored.
    TakeAnswer(String, u64),
    /// Cancel the calls of this replica that other replicas were told to cancel.
    TakeCancellations(String),
    /// Delete a cancellation that has taken effect, given by the id of its request as JSON.
    ForgetCancellation(String, String),
    /// Read the session again.
    Refresh(String),
    /// Announce that the session has this revision or has ended, which the other replicas may not have heard.
    Announce(String, u64),
    /// Announce that any session may have changed or ended.
    AnnounceAll,
}

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    pub(super) answers: WorkQueue,
    pub(super) cancellations: WorkQueue,
    pub(super) refreshes: WorkQueue,
    pub(super) announcements: WorkQueue,
}

/// The maximum number of due entries of one kind. If there are more, all work of that kind is due.
const MAX_ENTRIES: usize = 1024;

/// The due work of one kind, which a single task takes.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The entries, in the order in which they were added.
    entries: VecDeque<Work>,
    /// Whether all possible entries are due, because there were too many to keep or because they are unknown.
    is_all: bool,
}

impl WorkQueue {
    /// Adds an entry, unless it is already due.
    pub(super) fn add(&self, entry: Work) {
        let mut state = self.state();
        if state.is_all || state.entries.contains(&entry) {
            return;
        }
        if state.entries.len() >= MAX_ENTRIES {
            drop(state);
            return self.add_all();
        }
        state.entries.push_back(entry);
        drop(state);
        self.added.notify_one();
    }

    /// Makes everything due.
    pub(super) fn add_all(&self) {
        *self.state() = State { entries: VecDeque::new(), is_all: true };
        self.added.notify_one();
    }

    /// Waits until something is due, and takes it. Returns `None` if all possible entries are due.
    async fn next(&self) -> Option<Work> {
        loop {
            if let Some(due) = self.take() {
                return due;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<Option<Work>> {
        let mut state = self.state();
        if std::mem::take(&mut state.is_all) {
            return Some(None);
        }
        state.entries.pop_front().map(Some)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximum number of sessions for which work of one kind is in progress.
const MAX_IN_FLIGHT: usize = 32;

/// The maximum time after which work that has failed is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Starts a task as soon as there are fewer than [`MAX_IN_FLIGHT`].
async fn spawn(tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    if tasks.len() >= MAX_IN_FLIGHT {
        tasks.join_next().await;
    }
    tasks.spawn(task);
    while tasks.try_join_next().is_some() {}
}

/// Performs the work that is due, and renews the sessions in use once per interval, for as long as it is polled.
pub(super) async fn run(shared: Weak<ReplicaSessions>, work: Arc<SharedWork>, interval: Duration) {
    let all_answers = |shared: &ReplicaSessions| {
        shared.questions().into_iter().map(|(session, request)| Work::TakeAnswer(session, request)).collect()
    };
    let all_cancellations =
        |shared: &ReplicaSessions| shared.with_calls().into_iter().map(Work::TakeCancellations).collect();
    let all_refreshes = |shared: &ReplicaSessions| shared.stale_in_use().into_iter().map(Work::Refresh).collect();
    let answers = complete(&shared, &work.answers, interval, all_answers);
    let cancellations = complete(&shared, &work.cancellations, interval, all_cancellations);
    let refreshes = complete(&shared, &work.refreshes, interval, all_refreshes);
    let announcements = complete(&shared, &work.announcements, interval, |_| vec![Work::AnnounceAll]);
    tokio::select! {
        _ = answers => {}
        _ = cancellations => {}
        _ = refreshes => {}
        _ = announcements => {}
        _ = renew(&shared, interval) => {}
    }
}

/// Does the work of one kind. `all` returns all possible work of this kind.
async fn complete(
    shared: &Weak<ReplicaSessions>,
    queue: &WorkQueue,
    interval: Duration,
    all: impl Fn(&ReplicaSessions) -> Vec<Work>,
) -> Infallible {
    let mut tasks = JoinSet::new();
    loop {
        let due = match queue.next().await {
            Some(work) => vec![work],
            None => shared.upgrade().map_or_else(Vec::new, |shared| all(&shared)),
        };
        for work in due {
            spawn(&mut tasks, retry(Weak::clone(shared), work, interval.min(MAX_PAUSE))).await;
        }
    }
}

/// Repeats work until it succeeds, or the server no longer exists.
async fn retry(shared: Weak<ReplicaSessions>, work: Work, max_pause: Duration) {
    let mut backoff = Backoff::up_to(max_pause);
    while let Some(sessions) = shared.upgrade() {
        let Err(error) = sessions.execute(&work).await else { return };
        tracing::debug!(%error, "cannot exchange a session with the other replicas");
        drop(sessions);
        backoff.wait().await;
    }
}

/// Renews the sessions that were used since the previous renewals began. A failed renewal is repeated only after the
/// session was used again, since a record outlives several intervals.
async fn renew(shared: &Weak<ReplicaSessions>, interval: Duration) -> Infallible {
    let mut since = Instant::now();
    loop {
        sleep(interval).await;
        let begun = Instant::now();
        let used = shared.upgrade().map_or_else(Vec::new, |shared| shared.used_since(since));
        since = begun;
        let mut tasks = JoinSet::new();
        for session in used {
            let shared = Weak::clone(shared);
            let renewal = async move {
                if let Some(sessions) = shared.upgrade() {
                    sessions.renew(&session).await;
                }
            };
            spawn(&mut tasks, renewal).await;
        }
        while tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn entries_are_due_once_and_too_many_become_everything() {
        let due = WorkQueue::default();
        let entry = |number: usize| Work::Refresh(number.to_string());
        for number in [1, 2, 1] {
            due.add(entry(number));
        }
        assert_eq!((due.next().await, due.next().await), (Some(entry(1)), Some(entry(2))));
        for number in 0..=MAX_ENTRIES {
            due.add(entry(number));
        }
        due.add(entry(0));
        assert_eq!(due.next().await, None);
        due.add(entry(3));
        assert_eq!(due.next().await, Some(entry(3)), "what is added later is due again");
        assert_eq!(due.take(), None);
    }
}
