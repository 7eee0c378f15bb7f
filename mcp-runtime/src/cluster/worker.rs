//! The background work of a replica for its shared sessions.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use super::{
    due::{Due, DueWork},
    sessions::SharedSessions,
};
use crate::{backend::BackendError, race::race};

/// The maximum number of sessions for which work of one kind is in progress.
const MAX_IN_FLIGHT: usize = 32;

/// The maximum time after which work that has failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    /// The answers to questions of this replica, by session and request, that others have stored.
    pub(super) answers: DueWork<(String, u64)>,
    /// The cancellations of calls of this replica, by session and request as JSON, that others have stored.
    pub(super) cancellations: DueWork<(String, String)>,
    /// The sessions to read again.
    pub(super) refreshes: DueWork<String>,
    /// The sessions whose changes or end may not have been announced to the other replicas, each with a revision.
    pub(super) announcements: DueWork<(String, u64)>,
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
