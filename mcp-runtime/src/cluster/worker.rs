//! Does the work of a replica for its shared sessions, and renews those in use.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use super::{
    sessions::ReplicaSessions,
    work::{Due, SharedWork, Work, WorkQueue},
};
use crate::{backend::Backoff, race::race};

/// The maximum number of sessions for which work of one kind is in progress.
const MAX_IN_FLIGHT: usize = 32;

/// The maximum time after which work that has failed is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

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

/// Does what is due, and renews the sessions in use once per interval, for as long as it is polled.
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
    let (messages, records) = (race(answers, cancellations), race(refreshes, renew(&shared, interval)));
    let _ = race(race(messages, records), announcements).await;
}

/// Does the work of one kind. `all` returns all possible work of this kind.
async fn complete(
    shared: &Weak<ReplicaSessions>,
    queue: &WorkQueue<Work>,
    interval: Duration,
    all: impl Fn(&ReplicaSessions) -> Vec<Work>,
) -> Infallible {
    let mut tasks = BoundedTasks::default();
    loop {
        let due = match queue.next().await {
            Due::One(work) => vec![work],
            Due::All => shared.upgrade().map_or_else(Vec::new, |shared| all(&shared)),
        };
        for work in due {
            tasks.spawn(retry(Weak::clone(shared), work, interval.min(MAX_PAUSE))).await;
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
