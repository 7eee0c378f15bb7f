//! The sessions that several replicas share: any replica takes any message of any session.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::{
    background::BackgroundTask,
    replica::Replica,
    session_record::{Announcement, SharedSession, StoredSession, invalidate, invalidate_missed},
    session_store::{SESSION_MESSAGES, SessionStore},
    streams::{ReplicaStreams, SessionStreams},
    work::{SharedWork, Work},
};
use crate::{
    backend::{Availability, BackendError, BackendFuture, CircuitBreaker, with_timeout},
    counters::Counter,
    engine::{Engine, InputResponse, ReplicaHandler, Session, SessionMessage, Slot},
    error::Fault,
    handler::ClientProgress,
    jsonrpc::Id,
    transport::http::{
        HttpOptions,
        peers::{Peer, PeerPermit},
        session::{ActiveSession, HttpSession, LocalSessions, SessionFuture, SharedSessions, new_id},
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
    pub(super) this: Weak<Self>,
    store: SessionStore,
    engine: Arc<Engine>,
    sessions: Arc<LocalSessions>,
    streams: Arc<ReplicaStreams>,
    /// The number of announcements of changes. A session that was read while it changed is read again.
    announcements: AtomicU64,
    /// Whether outdated sessions are read again.
    breaker: CircuitBreaker,
    /// The time between two renewals of the sessions in use.
    pub(super) renewal_interval: Duration,
    pub(super) work: Arc<SharedWork>,
    /// Does the work, and renews the sessions in use.
    pub(super) worker: BackgroundTask,
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
        let _ = session.shared.set(Box::new(SharedSession::new(Arc::clone(id), stored, self.store.server_name())));
        self.sessions.insert(id, session, permit, Some(Box::new(streams)));
    }

    /// Adds a copy of a session that another replica has opened. Returns `false` if there is no such session.
    async fn load(&self, id: &str, principal: Option<&str>, peer: &Arc<Peer>) -> Result<bool, Fault> {
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
            let permit = self
                .sessions
                .reserve(peer)
                .ok_or_else(|| Fault::refused(Counter::RefusedSessions, "too many sessions"))?;
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

    /// Reads a session again if it is outdated. Returns `false` if it has ended. If the backend fails, the session remains
    /// usable for as long as this replica has its lease, and is read again later.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails and the lease is over: the session may have ended long ago.
    async fn refresh(&self, local: &HttpSession) -> Result<bool, BackendError> {
        if !self.is_outdated(&local.session, Instant::now()) {
            return Ok(true);
        }
        let refreshed = if self.breaker.availability() == Availability::Down {
            Err(BackendError::Unavailable("it has just failed".to_owned()))
        } else {
            let refreshed = with_timeout(self.store.refresh(&local.session)).await;
            self.breaker.record(refreshed.is_ok());
            refreshed.inspect_err(|error| tracing::debug!(%error, "cannot read a session again"))
        };
        refreshed.or_else(|error| if self.store.hears_changes() { Ok(true) } else { Err(error) })
    }

    /// Announces that a session may have changed or ended, as soon as the backend responds.
    fn announce_later(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session) {
            // Every replica with an older revision then reads the record, or finds that the record is gone.
            self.work.announcements.add(Work::Announce(shared.id.to_string(), shared.revision() + 1));
        }
    }

    /// Returns the questions of this replica that wait for an answer, by session and request.
    pub(super) fn questions(&self) -> Vec<(String, u64)> {
        let of_session = |(id, local): (Arc<str>, Arc<HttpSession>)| {
            let requests = local.session.pending_requests.ids();
            requests.into_iter().map(move |request| (id.to_string(), request))
        };
        self.sessions.all().into_iter().flat_map(of_session).collect()
    }

    /// Returns the sessions that must be read again now. Idle sessions are read again when they are used.
    pub(super) fn stale_in_use(&self) -> Vec<String> {
        let stale = self.sessions.all().into_iter().filter(|(_, local)| is_stale(local) && !local.is_idle());
        stale.map(|(id, _)| id.to_string()).collect()
    }

    /// Returns the sessions that were used after `since`. The other sessions are renewed when they are used.
    pub(super) fn used_since(&self, since: Instant) -> Vec<Arc<str>> {
        let is_used = |local: &HttpSession| !local.is_idle() || local.state().last_used >= since;
        let (used, unused): (Vec<_>, Vec<_>) = self.sessions.all().into_iter().partition(|(_, local)| is_used(local));
        unused.iter().filter_map(|(_, local)| SharedSession::of(&local.session)).for_each(SharedSession::set_unused);
        used.into_iter().map(|(id, _)| id).collect()
    }

    /// Performs the work that is due.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails or takes too long. The work is then still due.
    pub(super) async fn execute(&self, work: &Work) -> Result<(), BackendError> {
        match work {
            Work::TakeAnswer(session, request) => self.take_answer(session, *request).await,
            Work::TakeCancellations(session) => self.take_cancellations(session).await,
            // A later call may have the same id.
            Work::ForgetCancellation(session, request) => {
                self.store.forget_cancellation(session, request).await;
                Ok(())
            }
            Work::Refresh(session) => self.refresh_now(session).await,
            Work::Announce(session, revision) => {
                let (session, revision, unsubscribed) = (session.clone(), *revision, Vec::new());
                self.store.announce(&Announcement::Changed { session, revision, unsubscribed }).await
            }
            Work::AnnounceAll => self.store.announce(&Announcement::AllChanged).await,
            Work::Renew(session) => {
                self.renew(session).await;
                Ok(())
            }
            Work::Remove(session, peer) => self.store.remove(session, peer).await,
        }
    }

    /// Reads a session again if it is stale.
    async fn refresh_now(&self, id: &str) -> Result<(), BackendError> {
        let stale = self.sessions.get(id).filter(|local| is_stale(local));
        if let Some(local) = stale
            && !self.store.refresh(&local.session).await?
        {
            self.sessions.close(id);
        }
        Ok(())
    }

    /// Delivers the answer to a question, if there is one, and deletes it.
    async fn take_answer(&self, id: &str, request: u64) -> Result<(), BackendError> {
        match self.waiting_for(id, request) {
            Some(local) => {
                if let Some(answer) = self.store.take_answer(id, request).await? {
                    deliver(&local, request, answer);
                }
            }
            // The answer came with its announcement.
            None => self.store.forget_answer(id, request).await,
        }
        Ok(())
    }

    /// Returns the sessions with calls of this replica.
    pub(super) fn with_calls(&self) -> Vec<String> {
        let has_calls = |local: &HttpSession| local.session.in_flight.count() > 0;
        self.sessions.all().into_iter().filter(|(_, local)| has_calls(local)).map(|(id, _)| id.to_string()).collect()
    }

    /// Cancels the calls of a session that other replicas were told to cancel.
    async fn take_cancellations(&self, id: &str) -> Result<(), BackendError> {
        for request in self.store.cancellations(id).await? {
            if self.cancel(id, &request) {
                self.store.forget_cancellation(id, &request).await;
            }
        }
        Ok(())
    }

    /// Cancels a call of this replica, whose id is JSON. Returns whether there is one.
    fn cancel(&self, id: &str, request: &str) -> bool {
        let call = self.sessions.get(id).zip(Id::from_json(request));
        call.is_some_and(|(local, request)| local.session.in_flight.cancel(&request))
    }

    /// Returns the session whose function waits for the answer to a request.
    fn waiting_for(&self, id: &str, request: u64) -> Option<Arc<HttpSession>> {
        self.sessions.get(id).filter(|local| local.session.pending_requests.is_waiting(request))
    }

    /// Extends the time for which a session is kept. If this fails, it is repeated when the session is used again, since a
    /// record outlives several intervals.
    async fn renew(&self, id: &str) {
        let Some(local) = self.sessions.get(id) else { return };
        match self.store.renew(&local.session).await {
            Ok(true) => {}
            Ok(false) => self.sessions.close(id),
            Err(_) => SharedSession::of(&local.session).into_iter().for_each(SharedSession::set_unused),
        }
    }
}

impl SharedSessions for ReplicaSessions {
    fn open<'a>(
        &'a self,
        session: &'a Arc<Session>,
        peer: &'a Arc<Peer>,
    ) -> SessionFuture<'a, Result<Arc<str>, Fault>> {
        Box::pin(async move {
            self.ensure_worker();
            let too_many = || Fault::refused(Counter::RefusedSessions, "too many sessions");
            let permit = self.sessions.reserve(peer).ok_or_else(too_many)?;
            let id = new_id().ok_or_else(|| Fault::overloaded("no session id could be generated"))?;
            let peer = peer_name(peer);
            let mut unopened = Unopened { work: &self.work, session: Some((id.to_string(), peer.clone())) };
            let created = with_timeout(self.store.create(&id, session, peer)).await?;
            unopened.session = None;
            self.insert(&id, session, created.ok_or_else(too_many)?, permit);
            Ok(id)
        })
    }

    fn find<'a>(
        &'a self,
        id: &'a str,
        principal: Option<&'a str>,
        peer: &'a Arc<Peer>,
        now: Instant,
    ) -> SessionFuture<'a, Result<Option<ActiveSession>, Fault>> {
        Box::pin(async move {
            self.ensure_worker();
            if let Some(local) = self.sessions.find(id, principal, now) {
                self.used(&local.session);
                return Ok(self.refresh(&local).await?.then_some(local));
            }
            if !is_id(id) || !with_timeout(self.load(id, principal, peer)).await? {
                return Ok(None);
            }
            Ok(self.sessions.find(id, principal, now))
        })
    }

    fn is_outdated(&self, session: &Session, now: Instant) -> bool {
        self.store.is_outdated(session, now.into())
    }

    fn used(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session).filter(|shared| shared.take_unused()) {
            self.work.renewals.add(Work::Renew(shared.id.to_string()));
        }
    }

    fn discard(&self, session: &Session) {
        if let Some(shared) = SharedSession::of(session) {
            self.work.removals.add(Work::Remove(shared.id.to_string(), shared.peer()));
        }
    }

    fn send<'a>(&'a self, session: &'a Session, messages: Vec<SessionMessage>) -> BackendFuture<'a, bool> {
        let is_announced = |message| matches!(message, &SessionMessage::Initialized | &SessionMessage::Change(_));
        let is_change = messages.iter().any(is_announced);
        Box::pin(async move {
            with_timeout(self.store.send(session, messages)).await.inspect_err(|_| {
                // The copy may contain changes that the record does not, and the record may contain changes that were not
                // announced to the other replicas.
                invalidate(session);
                if is_change {
                    self.announce_later(session);
                }
            })
        })
    }

    fn delete<'a>(&'a self, session: &'a Session) -> BackendFuture<'a, ()> {
        Box::pin(
            async move { with_timeout(self.store.delete(session)).await.inspect_err(|_| self.announce_later(session)) },
        )
    }

    fn written(&self) -> SessionFuture<'_, ()> {
        Box::pin(self.streams.written())
    }
}

impl ReplicaHandler for ReplicaSessions {
    fn message(&self, payload: &[u8]) {
        let Some(announcement) = Announcement::decode(payload) else { return };
        match announcement {
            Announcement::Changed { session, revision, unsubscribed } => {
                self.announcements.fetch_add(1, Ordering::AcqRel);
                if let Some(local) = self.sessions.get(&session)
                    && SharedSession::of(&local.session).is_some_and(|shared| shared.revision() < revision)
                {
                    invalidate(&local.session);
                    if let Some(subscriber) = &local.session.subscriber {
                        unsubscribed.iter().for_each(|uri| subscriber.unsubscribe_resource(uri));
                    }
                    self.work.refreshes.add(Work::Refresh(session));
                }
            }
            Announcement::Initialized { session } => {
                if let Some(local) = self.sessions.get(&session) {
                    local.session.set_initialized();
                }
            }
            Announcement::AllChanged => self.missed(),
            Announcement::Ended { session } => {
                self.announcements.fetch_add(1, Ordering::AcqRel);
                self.sessions.close(&session);
            }
            Announcement::Cancelled { session, request } => {
                if self.cancel(&session, &request) {
                    self.work.cancellations.add(Work::ForgetCancellation(session, request));
                }
            }
            // A client can make up answers to questions that were never asked.
            Announcement::Answered { session, request, answer } => {
                if let Some(local) = self.waiting_for(&session, request) {
                    if let Some(answer) = answer {
                        deliver(&local, request, answer);
                    }
                    self.work.answers.add(Work::TakeAnswer(session, request));
                }
            }
            Announcement::Progressed { session, request, progress, total, message } => {
                if let Some(local) = self.sessions.get(&session) {
                    let report = ClientProgress { progress, total, message };
                    local.session.pending_requests.report_progress(request, &report);
                }
            }
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

/// A session that is being opened, with its peer. It is deleted when this is dropped with it.
struct Unopened<'a> {
    work: &'a SharedWork,
    session: Option<(String, String)>,
}

impl Drop for Unopened<'_> {
    fn drop(&mut self) {
        if let Some((session, peer)) = self.session.take() {
            self.work.removals.add(Work::Remove(session, peer));
        }
    }
}

/// Returns whether a session must be read again before it is used.
fn is_stale(local: &HttpSession) -> bool {
    SharedSession::of(&local.session).is_some_and(SharedSession::is_stale)
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

/// Returns a name of a peer that is part of a key.
fn peer_name(peer: &Peer) -> String {
    let digest = Sha256::digest(peer.quota_key().unwrap_or_default());
    URL_SAFE_NO_PAD.encode(&digest[..16])
}
