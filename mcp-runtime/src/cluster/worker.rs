//! The worker that does the due work of a replica for its shared sessions, and renews the sessions in use.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use super::{
    sessions::ReplicaSessions,
    work::{SharedWork, Work, WorkQueue},
};
use crate::backend::Backoff;

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

impl ReplicaSessions {
    /// Starts the worker if it is not running: it ends with the runtime that it was started in.
    pub(super) fn ensure_worker(&self) {
        self.worker.ensure_running(|| run(Weak::clone(&self.this), Arc::clone(&self.work), self.renewal_interval));
    }
}

/// Performs the work that is due, and renews the sessions in use once per interval, for as long as it is polled.
async fn run(shared: Weak<ReplicaSessions>, work: Arc<SharedWork>, interval: Duration) {
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
    let mut since = Instant::now();
    let used = |shared: &ReplicaSessions| {
        let begun = Instant::now();
        let used = shared.used_since(std::mem::replace(&mut since, begun));
        used.into_iter().map(|id| Work::Renew(id.to_string())).collect()
    };
    let renewals = complete(&shared, &work.renewals, interval, used);
    // Beyond the bound of the queue, records expire.
    let removals = complete(&shared, &work.removals, interval, |_| Vec::new());
    let renews = async {
        loop {
            sleep(interval).await;
            work.renewals.add_all();
        }
    };
    tokio::select! {
        _ = answers => {}
        _ = cancellations => {}
        _ = refreshes => {}
        _ = announcements => {}
        _ = renewals => {}
        _ = removals => {}
        () = renews => {}
    }
}

/// Does the work of one kind. `all` returns all possible work of this kind.
async fn complete(
    shared: &Weak<ReplicaSessions>,
    queue: &WorkQueue,
    interval: Duration,
    mut all: impl FnMut(&ReplicaSessions) -> Vec<Work>,
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
