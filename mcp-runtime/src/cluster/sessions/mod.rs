//! The sessions that several replicas share: any replica takes any message of any session.

mod record;
mod store;
mod worker;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use self::{
    record::{Announcement, Event, SharedSession, StoredSession, invalidate, invalidate_missed},
    store::{SESSION_MESSAGES, SessionStore, hashed_name},
};
use super::{
    replica::{BackgroundTask, Replica},
    streams::{ReplicaStreams, SessionStreams},
};
use crate::{
    backend::{Availability, BackendError, BackendFuture, CircuitBreaker, with_timeout},
    engine::{Engine, InputResponse, ReplicaHandler, Session, SessionMessage, Slot},
    error::Fault,
    handler::ClientProgress,
    jsonrpc::Id,
    stdx::{Mutex, OnDrop, wait_until},
    transport::http::{
        HttpOptions,
        peers::{Peer, PeerPermit},
        session::{ActiveSession, HttpSession, LocalSessions, SessionFuture, Sessions, new_id, too_many_sessions},
    },
};

/// How often a session is read again because announcements overlap with reading it.
const MAX_LOADS: usize = 3;

/// The time after which outdated sessions are read again if that has failed. In the meantime, they remain usable while
/// this replica has its lease.
const RETRY: Duration = Duration::from_secs(1);

/// The sessions that several replicas share. [`LocalSessions`] contains the copies of the sessions that this replica
/// uses.
#[derive(Debug)]
pub(crate) struct ReplicaSessions {
    /// Set by [`new`](Self::new), for the worker.
    this: Weak<Self>,
    store: SessionStore,
    engine: Arc<Engine>,
    sessions: Arc<LocalSessions>,
    streams: Arc<ReplicaStreams>,
    /// The number of announcements of changes. A session that was read while it changed is read again.
    announcements: AtomicU64,
    /// Whether outdated sessions are read again.
    breaker: CircuitBreaker,
    /// The time between two renewals of the sessions in use.
    renewal_interval: Duration,
    work: Arc<SharedWork>,
    /// Does the work, and renews the sessions in use.
    worker: BackgroundTask,
}

impl ReplicaSessions {
    /// Creates the sessions of a server.
    pub(super) fn new(
        replica: &Arc<Replica>,
        engine: &Arc<Engine>,
        sessions: &Arc<LocalSessions>,
        options: &HttpOptions,
    ) -> Arc<Self> {
        let renewal_interval = (options.session_idle / 8).max(Duration::from_millis(10));
        let max_per_peer = options.max_peer_share.of(options.max_sessions);
        let shared = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            store: SessionStore::new(Arc::clone(replica), options.session_idle, renewal_interval, max_per_peer),
            engine: Arc::clone(engine),
            sessions: Arc::clone(sessions),
            streams: ReplicaStreams::new(replica),
            announcements: AtomicU64::new(0),
            breaker: CircuitBreaker::new(RETRY),
            renewal_interval,
            work: Arc::default(),
            worker: BackgroundTask::default(),
        });
        let handler: Weak<Self> = Arc::downgrade(&shared);
        replica.add_handler(SESSION_MESSAGES, handler);
        shared
    }

    /// Connects a session to its record, and adds it to the sessions of this replica.
    fn insert(&self, id: &Arc<str>, session: &Arc<Session>, stored: StoredSession, permit: PeerPermit) {
        // All replicas must agree on the owner of the session's tasks.
        session.set_id(id);
        if let Some(replicas) = self.engine.replicas() {
            session.pending_requests.number_by(replicas);
        }
        let streams = SessionStreams::start(&self.streams, id, session);
        let shared = SharedSession::new(Arc::clone(id), stored, self.store.replica.server_name());
        let _ = session.shared.set(Box::new(shared));
        self.sessions.insert(id, session, permit, Some(Box::new(streams)));
    }

    /// Adds a copy of a session that another replica has opened. Returns `false` if there is no such session.
    async fn add_copy(&self, id: &str, principal: Option<&str>, peer: &Arc<Peer>) -> Result<bool, Fault> {
        for attempt in 1.. {
            let announcements = self.announcements.load(Ordering::Acquire);
            let is_overlapped = || self.announcements.load(Ordering::Acquire) != announcements;
            let Some(stored) = self.store.load(id).await? else { return Ok(false) };
            if !stored.record.belongs_to(principal) {
                return Ok(false);
            }
            if is_overlapped() && attempt < MAX_LOADS {
                continue;
            }
            let permit = self.sessions.reserve(peer).ok_or_else(too_many_sessions)?;
            let unknown = || BackendError::Unavailable("the version of a session is unknown".to_owned());
            let session = stored.record.restore(&self.engine).ok_or_else(unknown)?;
            let is_unused = self.store.is_unused_for(stored.record.renewed, self.renewal_interval);
            let id = Arc::from(id);
            self.insert(&id, &session, stored, permit);
            if is_unused {
                self.work.renewals.add(Work::Renew(id.to_string()));
            }
            if is_overlapped() {
                invalidate(&session);
                self.work.refreshes.add(Work::Refresh(id.to_string()));
            }
            break;
        }
        Ok(true)
    }

    /// Reads a session again if it is outdated. Returns `false` if it has ended. If the backend fails, a session that was read
    /// since this replica has its lease remains usable for as long, and is read again later.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails and the lease is over: the session may have ended long ago.
    async fn refresh(&self, local: &HttpSession) -> Result<bool, BackendError> {
        if !self.is_outdated(&local.session) {
            return Ok(true);
        }
        let refreshed = if self.breaker.availability() == Availability::Down {
            Err(BackendError::Unavailable("it has just failed".to_owned()))
        } else {
            let refreshed = with_timeout(self.store.refresh(&local.session)).await;
            self.breaker.record(refreshed.is_ok());
            refreshed.inspect_err(|error| tracing::debug!(%error, "cannot read a session again"))
        };
        let slot = self.store.replica.slot();
        let was_read = || SharedSession::of(&local.session).is_none_or(|shared| shared.was_read_by(slot));
        match refreshed {
            // Changes are announced to this replica. Otherwise, it may use no copy that it has not just read.
            Err(_) if self.store.replica.is_fresh(tokio::time::Instant::now()) && was_read() => Ok(true),
            refreshed => {
                if refreshed == Ok(false) {
                    self.ended(local);
                }
                refreshed
            }
        }
    }

    /// Returns whether a session must be read again before a message is processed that has arrived at `now`.
    fn is_outdated_at(&self, session: &Session, now: Instant) -> bool {
        let is_outdated = |shared: &SharedSession| shared.is_stale() || !self.store.replica.is_fresh(now.into());
        SharedSession::of(session).is_some_and(is_outdated)
    }

    /// Records that a session is used, which keeps other processes from evicting it. Does not wait.
    fn record_use(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session).filter(|shared| shared.take_unused()) {
            self.work.renewals.add(Work::Renew(shared.id.to_string()));
        }
    }

    /// Announces that a session may have changed or ended, as soon as the backend responds.
    fn announce_later(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session) {
            // Every replica with an older revision then reads the record, or finds that the record is gone.
            self.work.announcements.add(Work::Announce(shared.id.to_string(), shared.revision() + 1));
        }
    }

    /// Removes the copy of a session that has ended, and the logs of its streams.
    fn ended(&self, local: &HttpSession) {
        local.ended_everywhere();
        self.sessions.close(local.session.id().unwrap_or_default());
    }
}

impl Sessions for ReplicaSessions {
    fn local(&self) -> &LocalSessions {
        &self.sessions
    }

    fn open<'a>(&'a self, session: &'a Arc<Session>, peer: &'a Arc<Peer>) -> SessionFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.ensure_worker();
            let permit = self.sessions.reserve(peer).ok_or_else(too_many_sessions)?;
            let id = new_id().ok_or_else(|| Fault::overloaded("no session id could be generated"))?;
            let peer = hashed_name(peer.quota_key().unwrap_or_default());
            // Deletes what may have been written if the backend fails, or if the request is cancelled.
            let unopened = OnDrop(|| self.work.removals.add(Work::Remove(id.to_string(), peer.clone())));
            let created = with_timeout(self.store.create(&id, session, peer.clone())).await?;
            std::mem::forget(unopened);
            self.insert(&id, session, created.ok_or_else(too_many_sessions)?, permit);
            Ok(())
        })
    }

    fn look_up(&self, id: &str, principal: Option<&str>, now: Instant) -> Option<ActiveSession> {
        let found = self.sessions.find(id, principal, now);
        let local = found.filter(|local| !self.is_outdated_at(&local.session, now))?;
        self.record_use(&local.session);
        Some(local)
    }

    fn load<'a>(
        &'a self,
        id: &'a str,
        principal: Option<&'a str>,
        peer: &'a Arc<Peer>,
        now: Instant,
    ) -> SessionFuture<'a, Result<Option<ActiveSession>, Fault>> {
        Box::pin(async move {
            self.ensure_worker();
            if let Some(local) = self.sessions.find(id, principal, now) {
                self.record_use(&local.session);
                return Ok(self.refresh(&local).await?.then_some(local));
            }
            if !is_id(id) || !with_timeout(self.add_copy(id, principal, peer)).await? {
                return Ok(None);
            }
            Ok(self.sessions.find(id, principal, now))
        })
    }

    fn is_outdated(&self, session: &Session) -> bool {
        self.is_outdated_at(session, Instant::now())
    }

    fn discard(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session) {
            self.work.removals.add(Work::Remove(shared.id.to_string(), shared.peer()));
        }
        self.sessions.close(session.id().unwrap_or_default());
    }

    fn send<'a>(&'a self, session: &'a Session, messages: Vec<SessionMessage>) -> BackendFuture<'a, bool> {
        let is_announced = |message| matches!(message, &SessionMessage::Initialized | &SessionMessage::Change(_));
        let is_change = messages.iter().any(is_announced);
        Box::pin(async move {
            let local = self.sessions.get(session.id().unwrap_or_default());
            let sent = with_timeout(self.store.send(session, messages)).await;
            match sent {
                Ok(true) => {}
                Ok(false) => local.iter().for_each(|local| self.ended(local)),
                Err(_) => {
                    // The copy may contain changes that the record does not, and the record may contain changes that were
                    // not announced to the other replicas.
                    invalidate(session);
                    if is_change {
                        self.announce_later(session);
                    }
                }
            }
            sent
        })
    }

    fn delete<'a>(&'a self, session: &'a Session) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            // The announcement may arrive earlier, and remove the copy.
            let local = self.sessions.get(session.id().unwrap_or_default());
            with_timeout(self.store.delete(session)).await.inspect_err(|_| self.announce_later(session))?;
            local.iter().for_each(|local| local.ended_everywhere());
            self.sessions.close(session.id().unwrap_or_default());
            Ok(())
        })
    }

    fn written(&self) -> SessionFuture<'_, ()> {
        Box::pin(self.streams.written())
    }
}

impl ReplicaHandler for ReplicaSessions {
    fn message(&self, payload: &[u8]) {
        let Ok(Announcement { session, event }) = serde_json::from_slice(payload) else { return };
        // Before the lookup, which does not find a session that is being read.
        if matches!(event, Event::Changed { .. } | Event::Ended) {
            self.announcements.fetch_add(1, Ordering::AcqRel);
        }
        match (event, self.sessions.get(&session)) {
            (Event::AllChanged, _) => self.missed(),
            (Event::Changed { revision, unsubscribed }, Some(local)) => {
                if SharedSession::of(&local.session).is_some_and(|shared| shared.revision() < revision) {
                    invalidate(&local.session);
                    if let Some(subscriber) = &local.session.subscriber {
                        unsubscribed.iter().for_each(|uri| subscriber.unsubscribe_resource(uri));
                    }
                    self.work.refreshes.add(Work::Refresh(session));
                }
            }
            (Event::Initialized, Some(local)) => {
                local.session.set_initialized();
            }
            (Event::Ended, Some(local)) => self.ended(&local),
            (Event::Cancelled { request }, Some(local)) => {
                if cancel_call(&local, &request) {
                    self.work.cancellations.add(Work::ForgetCancellation(session, request));
                }
            }
            // A client can make up answers to questions that were never asked, or repeat an answer. Their records are
            // deleted, so that they neither answer a later question nor take the room of other answers.
            (Event::Answered { request, answer }, local) => {
                let Some(local) = local.filter(|local| local.session.pending_requests.is_waiting(request)) else {
                    return self.work.unexpected.add(Work::TakeAnswer(session, request));
                };
                if let Some(answer) = answer {
                    deliver(&local, request, answer);
                }
                self.work.answers.add(Work::TakeAnswer(session, request));
            }
            (Event::Progressed { request, progress, total, message }, Some(local)) => {
                let report = ClientProgress { progress, total, message };
                local.session.pending_requests.report_progress(request, &report);
            }
            (_, None) => {}
        }
    }

    fn missed(&self) {
        self.announcements.fetch_add(1, Ordering::AcqRel);
        self.sessions.all().iter().for_each(|(_, local)| invalidate_missed(&local.session));
        self.work.refreshes.add_all();
        self.work.answers.add_all();
        self.work.cancellations.add_all();
    }

    fn paused(&self) {
        self.announcements.fetch_add(1, Ordering::AcqRel);
        self.sessions.all().iter().for_each(|(_, local)| invalidate(&local.session));
    }

    fn lost(&self, slot: Slot) {
        let lost = Fault::internal(
            "the call was lost: the server could not reach the state that it shares with other processes in time, and \
             the function may have run",
        );
        for (_, local) in self.sessions.all() {
            if local.session.is_shared() {
                local.session.in_flight.fail_all(&lost);
                local.session.pending_requests.withdraw(|request| Slot::of_id(request) == Some(slot));
            }
        }
    }
}

/// Cancels a call of this replica, whose id is JSON. Returns whether there is one.
fn cancel_call(local: &HttpSession, request: &str) -> bool {
    Id::from_json(request).is_some_and(|request| local.session.in_flight.cancel(&request))
}

/// Passes the answer to a question to the function that waits for it.
fn deliver(local: &HttpSession, request: u64, answer: InputResponse) {
    local.session.record_sign_of_life();
    local.session.pending_requests.deliver(request, answer);
}

/// Returns whether a text may be the id of a session, so that other texts cost no access to the backend.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A job for a session, which the job names by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
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
    /// Extend the time for which the session is kept.
    Renew(String),
    /// Delete the session of a peer, which could not be opened.
    Remove(String, String),
}

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
struct SharedWork {
    answers: WorkQueue,
    /// Answers that nothing waits for.
    unexpected: WorkQueue,
    cancellations: WorkQueue,
    refreshes: WorkQueue,
    announcements: WorkQueue,
    renewals: WorkQueue,
    removals: WorkQueue,
}

/// The maximum number of due entries of one kind. If there are more, all work of that kind is due.
const MAX_ENTRIES: usize = 1024;

/// The due work of one kind, which a single task takes.
#[derive(Debug, Default)]
struct WorkQueue {
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
    fn add(&self, entry: Work) {
        let mut state = self.state.lock();
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
    fn add_all(&self) {
        *self.state.lock() = State { entries: VecDeque::new(), is_all: true };
        self.added.notify_one();
    }

    /// Waits until something is due, and takes it. Returns `None` if all possible entries are due.
    async fn next(&self) -> Option<Work> {
        wait_until(&self.added, || self.take()).await
    }

    fn take(&self) -> Option<Option<Work>> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_all) {
            return Some(None);
        }
        state.entries.pop_front().map(Some)
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
