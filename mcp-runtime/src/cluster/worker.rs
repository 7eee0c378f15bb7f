//! The background work of a replica for its shared sessions, and the bounded queue that it is taken from.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet, time::sleep};

use super::sessions::SharedSessions;
use crate::{backend::BackendError, race::race};

/// The maximum number of sessions for which work of one kind is in progress.
const MAX_IN_FLIGHT: usize = 32;

/// The maximum time after which work that has failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    /// The answers to questions of this replica, by session and request, that others have stored.
    pub(super) answers: WorkQueue<(String, u64)>,
    /// The cancellations of calls of this replica, by session and request as JSON, that others have stored.
    pub(super) cancellations: WorkQueue<(String, String)>,
    /// The sessions to read again.
    pub(super) refreshes: WorkQueue<String>,
    /// The sessions whose changes or end may not have been announced to the other replicas, each with a revision.
    pub(super) announcements: WorkQueue<(String, u64)>,
}

/// Tasks of which a bounded number runs at a time. Dropping it aborts them.
#[derive(Debug, Default)]
struct BoundedTasks(JoinSet<()>);

impl BoundedTasks {
    /// Starts a task as soon as there are fewer than [`MAX_IN_FLIGHT`].
    async fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        if self.0.len() >= MAX_IN_FLIGHT {
            self.0.join_next().await;
        }
        self.0.spawn(task);
        while self.0.try_join_next().is_some() {}
    }

    /// Waits until all tasks have ended.
    async fn finish(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

impl SharedSessions {
    /// Starts the worker if it is not running: it ends with the runtime that it was started in.
    pub(super) fn ensure_worker(self: &Arc<Self>) {
        self.worker.ensure_running(|| {
            let (shared, work) = (Arc::downgrade(self), Arc::clone(&self.work));
            run(shared, work, self.renewal_interval)
        });
    }
}

/// Does what is due, and renews the sessions in use once per interval, for as long as it is polled.
async fn run(shared: Weak<SharedSessions>, work: Arc<SharedWork>, interval: Duration) {
    let retry = interval.min(RETRY);
    let answers = take_answers(&shared, &work, retry);
    let refreshes = refresh(&shared, &work, retry);
    let announcements = announce(&shared, &work, retry);
    let cancellations = cancel(&shared, &work, retry);
    let (messages, records) = (race(answers, cancellations), race(refreshes, renew(&shared, interval)));
    let _ = race(race(messages, records), announcements).await;
}

async fn take_answers(shared: &Weak<SharedSessions>, work: &Arc<SharedWork>, retry: Duration) -> Infallible {
    let mut tasks = BoundedTasks::default();
    loop {
        let due = match work.answers.next().await {
            Due::One(answer) => vec![answer],
            Due::All => shared.upgrade().map_or_else(Vec::new, |shared| shared.questions()),
        };
        for (session, request) in due {
            let (shared, work) = (Weak::clone(shared), Arc::clone(work));
            tasks
                .spawn(async move {
                    let Some(sessions) = shared.upgrade() else { return };
                    if let Err(error) = sessions.take_answer(&session, request).await {
                        drop(sessions);
                        wait(&error, retry).await;
                        work.answers.add((session, request));
                    }
                })
                .await;
        }
    }
}

async fn cancel(shared: &Weak<SharedSessions>, work: &Arc<SharedWork>, retry: Duration) -> Infallible {
    let mut tasks = BoundedTasks::default();
    loop {
        match work.cancellations.next().await {
            Due::One((session, request)) => {
                let shared = Weak::clone(shared);
                tasks
                    .spawn(async move {
                        let Some(sessions) = shared.upgrade() else { return };
                        sessions.forget_cancellation(&session, &request).await;
                    })
                    .await;
            }
            Due::All => {
                for session in shared.upgrade().map_or_else(Vec::new, |shared| shared.with_calls()) {
                    let (shared, work) = (Weak::clone(shared), Arc::clone(work));
                    tasks
                        .spawn(async move {
                            let Some(sessions) = shared.upgrade() else { return };
                            if let Err(error) = sessions.take_cancellations(&session).await {
                                drop(sessions);
                                wait(&error, retry).await;
                                work.cancellations.add_all();
                            }
                        })
                        .await;
                }
            }
        }
    }
}

async fn refresh(shared: &Weak<SharedSessions>, work: &Arc<SharedWork>, retry: Duration) -> Infallible {
    let mut tasks = BoundedTasks::default();
    loop {
        let due = match work.refreshes.next().await {
            Due::One(session) => vec![session],
            Due::All => shared.upgrade().map_or_else(Vec::new, |shared| shared.stale_in_use()),
        };
        for session in due {
            let (shared, work) = (Weak::clone(shared), Arc::clone(work));
            tasks
                .spawn(async move {
                    let Some(sessions) = shared.upgrade() else { return };
                    if let Err(error) = sessions.refresh_now(&session).await {
                        drop(sessions);
                        wait(&error, retry).await;
                        work.refreshes.add(session);
                    }
                })
                .await;
        }
    }
}

async fn announce(shared: &Weak<SharedSessions>, work: &Arc<SharedWork>, retry: Duration) -> Infallible {
    let mut tasks = BoundedTasks::default();
    loop {
        let due = work.announcements.next().await;
        let (shared, work) = (Weak::clone(shared), Arc::clone(work));
        tasks
            .spawn(async move {
                let Some(sessions) = shared.upgrade() else { return };
                let announced = match &due {
                    Due::One((session, revision)) => sessions.announce(session, *revision).await,
                    Due::All => sessions.announce_all().await,
                };
                if let Err(error) = announced {
                    drop(sessions);
                    wait(&error, retry).await;
                    match due {
                        Due::One(change) => work.announcements.add(change),
                        Due::All => work.announcements.add_all(),
                    }
                }
            })
            .await;
    }
}

/// Renews the sessions that were used since the previous renewals began. A failed renewal is repeated only after the
/// session was used again, since a record outlives several intervals.
async fn renew(shared: &Weak<SharedSessions>, interval: Duration) -> Infallible {
    let mut since = Instant::now();
    loop {
        sleep(interval).await;
        let begun = Instant::now();
        let used = shared.upgrade().map_or_else(Vec::new, |shared| shared.used_since(since));
        since = begun;
        let mut tasks = BoundedTasks::default();
        for session in used {
            let shared = Weak::clone(shared);
            tasks
                .spawn(async move {
                    if let Some(sessions) = shared.upgrade() {
                        sessions.renew(&session).await;
                    }
                })
                .await;
        }
        tasks.finish().await;
    }
}

async fn wait(error: &BackendError, retry: Duration) {
    tracing::debug!(%error, "cannot exchange a session with the other replicas");
    sleep(retry).await;
}

/// The maximum number of due entries of one kind. If there are more, all work of that kind is due.
const MAX_ENTRIES: usize = 1024;

/// The due work of one kind, which a single task takes.
#[derive(Debug)]
pub(super) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    added: Notify,
}

#[derive(Debug)]
struct State<T> {
    /// The entries, in the order in which they were added.
    entries: VecDeque<T>,
    is_all: bool,
}

/// The next work to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due<T> {
    One(T),
    /// All possible entries, because there were too many to keep or because they are unknown.
    All,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { entries: VecDeque::new(), is_all: false }), added: Notify::new() }
    }
}

impl<T: PartialEq> WorkQueue<T> {
    /// Adds an entry, unless it is already due.
    pub(super) fn add(&self, entry: T) {
        let mut state = self.state();
        if state.is_all || state.entries.contains(&entry) {
            return;
        }
        if state.entries.len() < MAX_ENTRIES {
            state.entries.push_back(entry);
            drop(state);
            self.added.notify_one();
        } else {
            drop(state);
            self.add_all();
        }
    }

    /// Makes everything due.
    pub(super) fn add_all(&self) {
        let mut state = self.state();
        state.is_all = true;
        state.entries.clear();
        drop(state);
        self.added.notify_one();
    }

    /// Waits until something is due, and takes it.
    pub(super) async fn next(&self) -> Due<T> {
        loop {
            if let Some(due) = self.take() {
                return due;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<Due<T>> {
        let mut state = self.state();
        if std::mem::take(&mut state.is_all) {
            return Some(Due::All);
        }
        state.entries.pop_front().map(Due::One)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn entries_are_due_once_and_too_many_become_everything() {
        let due = WorkQueue::default();
        for entry in [1, 2, 1] {
            due.add(entry);
        }
        assert_eq!((due.next().await, due.next().await), (Due::One(1), Due::One(2)));
        for entry in 0..=MAX_ENTRIES {
            due.add(entry);
        }
        due.add(0);
        assert_eq!(due.next().await, Due::All);
        due.add(3);
        assert_eq!(due.next().await, Due::One(3), "what is added later is due again");
        assert_eq!(due.take(), None);
    }
}
