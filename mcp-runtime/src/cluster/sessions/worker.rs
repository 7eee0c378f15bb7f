//! The worker that does the due work of a replica for its shared sessions, and renews the sessions in use.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use super::{
    ReplicaSessions, SharedWork, Work, WorkQueue, cancel_call, deliver,
    record::{Event, SharedSession},
};
use crate::{
    backend::{BackendError, Backoff},
    cluster::replica::MAX_PAUSE,
    transport::http::session::HttpSession,
};

/// The maximum number of sessions for which work of one kind is in progress.
const MAX_IN_FLIGHT: usize = 32;

impl ReplicaSessions {
    /// Starts the worker if it is not running: it ends with the runtime that it was started in.
    pub(super) fn ensure_worker(&self) {
        self.worker.ensure_running(|| run(Weak::clone(&self.this), Arc::clone(&self.work), self.renewal_interval));
    }

    /// Returns the work for the questions of this replica that wait for an answer.
    fn all_answers(&self) -> Vec<Work> {
        let of_session = |(id, local): (Arc<str>, Arc<HttpSession>)| {
            let requests = local.session.pending_requests.ids();
            requests.into_iter().map(move |request| Work::TakeAnswer(id.to_string(), request))
        };
        self.sessions.all().into_iter().flat_map(of_session).collect()
    }

    /// Returns the work for the sessions that must be read again now. Idle sessions are read again when they are used.
    fn all_refreshes(&self) -> Vec<Work> {
        let stale = self.sessions.all().into_iter().filter(|(_, local)| is_stale(local) && !local.is_idle());
        stale.map(|(id, _)| Work::Refresh(id.to_string())).collect()
    }

    /// Returns the work for the sessions that were used after `since`. The other sessions are renewed when they are used.
    fn all_renewals(&self, since: Instant) -> Vec<Work> {
        let is_used = |local: &HttpSession| !local.is_idle() || local.state().last_used >= since;
        let (used, unused): (Vec<_>, Vec<_>) = self.sessions.all().into_iter().partition(|(_, local)| is_used(local));
        unused.iter().filter_map(|(_, local)| SharedSession::of(&local.session)).for_each(SharedSession::set_unused);
        used.into_iter().map(|(id, _)| Work::Renew(id.to_string())).collect()
    }

    /// Performs the work that is due.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails or takes too long. The work is then still due.
    async fn execute(&self, work: &Work) -> Result<(), BackendError> {
        match work {
            Work::TakeAnswer(session, request) => self.take_answer(session, *request).await?,
            Work::TakeCancellations(session) => self.take_cancellations(session).await?,
            // A later call may have the same id.
            Work::ForgetCancellation(session, request) => self.store.forget_cancellation(session, request).await,
            Work::Refresh(session) => self.refresh_now(session).await?,
            Work::Announce(session, revision) => {
                let changed = Event::Changed { revision: *revision, unsubscribed: Vec::new() };
                self.store.announce(session, changed).await?;
            }
            Work::AnnounceAll => self.store.announce("", Event::AllChanged).await?,
            Work::Renew(session) => self.renew(session).await,
            Work::Remove(session, peer) => self.store.remove(session, peer).await?,
        }
        Ok(())
    }

    /// Reads a session again if it is stale.
    async fn refresh_now(&self, id: &str) -> Result<(), BackendError> {
        let stale = self.sessions.get(id).filter(|local| is_stale(local));
        if let Some(local) = stale
            && !self.store.refresh(&local.session).await?
        {
            self.ended(&local);
        }
        Ok(())
    }

    /// Delivers the answer to a question, if there is one, and deletes it.
    async fn take_answer(&self, id: &str, request: u64) -> Result<(), BackendError> {
        match self.sessions.get(id).filter(|local| local.session.pending_requests.is_waiting(request)) {
            Some(local) => {
                if let Some(answer) = self.store.take_answer(id, request).await? {
                    deliver(&local, request, answer);
                }
            }
            // The answer came with its announcement, or nothing waits for it.
            None => self.store.forget_answer(id, request).await,
        }
        Ok(())
    }

    /// Returns the work for the sessions with calls of this replica.
    fn all_cancellations(&self) -> Vec<Work> {
        let sessions = self.sessions.all().into_iter();
        let with_calls = sessions.filter(|(_, local)| local.session.in_flight.count() > 0);
        with_calls.map(|(id, _)| Work::TakeCancellations(id.to_string())).collect()
    }

    /// Cancels the calls of a session that other replicas were told to cancel.
    async fn take_cancellations(&self, id: &str) -> Result<(), BackendError> {
        for request in self.store.cancellations(id).await? {
            if self.sessions.get(id).is_some_and(|local| cancel_call(&local, &request)) {
                self.store.forget_cancellation(id, &request).await;
            }
        }
        Ok(())
    }

    /// Extends the time for which a session is kept. If this fails, it is repeated when the session is used again, since a
    /// record outlives several intervals.
    async fn renew(&self, id: &str) {
        let Some(local) = self.sessions.get(id) else { return };
        match self.store.renew(&local.session).await {
            Ok(true) => {}
            Ok(false) => self.ended(&local),
            Err(_) => SharedSession::of(&local.session).into_iter().for_each(SharedSession::set_unused),
        }
    }
}

/// Performs the work that is due, and renews the sessions in use once per interval, for as long as it is polled.
async fn run(shared: Weak<ReplicaSessions>, work: Arc<SharedWork>, interval: Duration) {
    let answers = complete(&shared, &work.answers, interval, ReplicaSessions::all_answers);
    // Beyond the bound of these queues, records expire.
    let unexpected = complete(&shared, &work.unexpected, interval, |_| Vec::new());
    let removals = complete(&shared, &work.removals, interval, |_| Vec::new());
    let cancellations = complete(&shared, &work.cancellations, interval, ReplicaSessions::all_cancellations);
    let refreshes = complete(&shared, &work.refreshes, interval, ReplicaSessions::all_refreshes);
    let announcements = complete(&shared, &work.announcements, interval, |_| vec![Work::AnnounceAll]);
    let mut since = Instant::now();
    let all_renewals = |shared: &ReplicaSessions| shared.all_renewals(std::mem::replace(&mut since, Instant::now()));
    let renewals = complete(&shared, &work.renewals, interval, all_renewals);
    let renews = async {
        loop {
            sleep(interval).await;
            work.renewals.add_all();
        }
    };
    tokio::join!(answers, unexpected, cancellations, refreshes, announcements, renewals, removals, renews);
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
            if tasks.len() >= MAX_IN_FLIGHT {
                tasks.join_next().await;
            }
            tasks.spawn(retry(Weak::clone(shared), work, interval.min(MAX_PAUSE)));
            while tasks.try_join_next().is_some() {}
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

/// Returns whether a session must be read again before it is used.
fn is_stale(local: &HttpSession) -> bool {
    SharedSession::of(&local.session).is_some_and(SharedSession::is_stale)
}
