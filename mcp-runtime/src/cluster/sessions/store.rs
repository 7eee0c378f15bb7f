//! The sessions in the backend, and what replicas tell each other about them.

use std::{cmp::Reverse, fmt::Display, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::record::{Event, RecordFull, SessionRecord, SharedSession, StoredSession};
use crate::{
    backend::{
        Backend, BackendError, Insertion, Record, RecordCondition, RecordQuota, RecordVersion, Timestamp, with_timeout,
    },
    cluster::replica::Replica,
    engine::{InputResponse, Session, SessionChange, SessionMessage, Slot},
    handler::ClientProgress,
};

/// The kind of the messages between replicas about sessions.
pub(super) const SESSION_MESSAGES: &str = "session";

/// The maximum number of attempts to change a session that other replicas keep changing. A replica makes one change of a
/// session at a time, so each failure means that another replica has succeeded.
const MAX_ATTEMPTS: usize = 64;

/// The size of the sample of a peer's sessions from which the longest unused sessions are evicted.
const EVICTION_SAMPLE: usize = 64;

/// How long the answer of a client is kept for the replica that asked. A replica that has missed the announcement of an
/// answer looks for the answer within this time.
const ANSWER_TTL: Duration = Duration::from_secs(60);

/// The maximum size in bytes of an answer for another replica. A longer answer is replaced with an error.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The maximum size in bytes of an answer that is sent to another replica, which reads a larger answer from its record.
const MAX_SENT_BYTES: usize = 16 << 10;

/// The maximum numbers of answers of a session that are stored for other replicas: of answers that are also sent, and
/// of larger answers. They take at most 1 MiB and 16 MiB. Further answers are only sent, and larger answers are
/// refused. Only the replica that asked knows whether an answer is expected, so a client could otherwise store any
/// number of invented answers.
const MAX_ANSWERS: (usize, usize) = (64, 16);

/// The minimum time for which a cancellation is kept for the replica that runs the call. A replica that has missed the
/// announcement of a cancellation looks for it within this time.
const CANCELLATION_TTL: Duration = Duration::from_secs(60);

/// The maximum number of cancellations of a session that are kept. Further cancellations are only announced. Only the
/// replica that runs a call knows its id, so a client could otherwise store any number of invented ids.
const MAX_CANCELLATIONS: usize = 64;

/// The sessions in the backend.
#[derive(Debug)]
pub(super) struct SessionStore {
    pub(super) replica: Arc<Replica>,
    /// The time for which a session is kept after it was last renewed.
    ttl: Duration,
    /// The maximum number of sessions of one peer.
    max_per_peer: usize,
    /// The time since its last renewal after which no replica can be using a session.
    unused_after: Duration,
}

impl SessionStore {
    /// Creates the store of a replica that renews the sessions in use once per interval.
    pub(super) fn new(replica: Arc<Replica>, idle: Duration, renewal_interval: Duration, max_per_peer: usize) -> Self {
        // A copy may be used until the end of this time, so the record must exist a little longer.
        let ttl = idle.saturating_add(renewal_interval * 2);
        Self { replica, ttl, max_per_peer, unused_after: renewal_interval * 2 }
    }

    /// Writes the record of a session that was opened on this replica. Returns `None` if the peer has too many sessions.
    /// If it fails, the session must be [removed](Self::remove). `peer` contains no colon.
    pub(super) async fn create(
        &self,
        id: &str,
        session: &Session,
        peer: String,
    ) -> Result<Option<StoredSession>, BackendError> {
        let read_by = Some(self.replica.join().await?);
        let mut record = SessionRecord::new(session, peer, self.replica.server_name());
        record.renewed = Some(self.replica.clock().now());
        let peer = &record.peer;
        // Both records are written in the same round trip.
        let write = self.write(id, RecordCondition::Absent, &record);
        let (is_admitted, version) = tokio::try_join!(self.insert_peer(id, peer), write)?;
        if !(is_admitted || self.evict(peer, id).await? && self.insert_peer(id, peer).await?) {
            // Before the client may try again, so that the records of refused sessions do not add up.
            with_timeout(self.backend().delete(&key(SESSION, id), RecordCondition::Always)).await?;
            return Ok(None);
        }
        let collision = || BackendError::Unavailable("the id of a new session already exists".to_owned());
        let version = version.ok_or_else(collision)?;
        Ok(Some(StoredSession { record, version, read_by }))
    }

    /// Ends sessions of a peer that no replica is using: the eighth of a random sample that has been unused longest.
    /// Returns `false` if every session is in use.
    async fn evict(&self, peer: &str, random_name: &str) -> Result<bool, BackendError> {
        let group = key(PEER, peer);
        let mut sample = with_timeout(self.backend().list(&group, Some(random_name), EVICTION_SAMPLE)).await?;
        if sample.len() < EVICTION_SAMPLE {
            // Few names follow the random one, so the sample continues with the first name.
            let rest = EVICTION_SAMPLE - sample.len();
            sample.extend(with_timeout(self.backend().list(&group, None, rest)).await?);
        }
        let now = self.replica.clock().now();
        let idle_for = |record: &Record| {
            let renewed = serde_json::from_slice::<Timestamp>(&record.value).ok()?;
            Some(now.saturating_duration_since(renewed)).filter(|idle| *idle > self.unused_after)
        };
        let mut unused: Vec<_> =
            sample.into_iter().filter_map(|(id, record)| Some((Reverse(idle_for(&record)?), id))).collect();
        unused.sort_unstable();
        unused.truncate((unused.len() / 8).max(1));
        if unused.is_empty() {
            return Ok(false);
        }
        tracing::warn!(evicted = unused.len(), "too many sessions of a peer: evicting unused ones");
        for (_, id) in &unused {
            self.remove(id, peer).await?;
        }
        Ok(true)
    }

    /// Returns whether the last renewal is longer ago than `time`, or unknown.
    pub(super) fn is_unused_for(&self, renewed: Option<Timestamp>, time: Duration) -> bool {
        let now = self.replica.clock().now();
        renewed.is_none_or(|renewed| now.saturating_duration_since(renewed) > time)
    }

    /// Reads a session. Returns `None` if it does not exist, or if it belongs to another server.
    pub(super) async fn load(&self, id: &str) -> Result<Option<StoredSession>, BackendError> {
        // Without a slot, which a full backend does not provide, each message of the session reads the record.
        let joined = self.replica.join().await;
        let joined =
            joined.inspect_err(|error| tracing::debug!(%error, "reading a session that may change without notice"));
        let Some(found) = with_timeout(self.backend().get(&key(SESSION, id))).await? else { return Ok(None) };
        let record = SessionRecord::decode(&found.value)?;
        let is_of_server = self.replica.accepts_server(&record.server);
        Ok(is_of_server.then_some(StoredSession { record, version: found.version, read_by: joined.ok() }))
    }

    /// Reads a session again. Returns `false` if it has ended, which also ends the local copy.
    pub(super) async fn refresh(&self, session: &Session) -> Result<bool, BackendError> {
        let Some(shared) = SharedSession::of(session) else { return Ok(true) };
        let invalidations = shared.invalidations();
        let Some(stored) = self.load(&shared.id).await? else {
            session.end();
            return Ok(false);
        };
        shared.adopt(session, stored, self.replica.server_name());
        shared.validate(invalidations);
        Ok(true)
    }

    /// Tells other replicas about the messages of a client that concern them. Returns `false` if the session has ended.
    /// After an error, the local copy may contain changes that the record does not.
    pub(super) async fn send(&self, session: &Session, messages: Vec<SessionMessage>) -> Result<bool, BackendError> {
        let Some(shared) = SharedSession::of(session) else { return Ok(true) };
        let mut changes = Vec::new();
        for message in messages {
            match message {
                SessionMessage::Initialized => self.announce(&shared.id, Event::Initialized).await?,
                SessionMessage::Change(change) => changes.push(change),
                SessionMessage::Answer(request, answer) => self.forward_answer(shared, request, &answer).await?,
                SessionMessage::Progress(request, ClientProgress { progress, total, message }) => {
                    if let Some(owner) = self.owner(request) {
                        let progressed = Event::Progressed { request, progress, total, message };
                        self.replica.send(owner, SESSION_MESSAGES, &progressed.encode(&shared.id)).await?;
                    }
                }
                SessionMessage::Cancel(request) => self.cancel(shared, request).await?,
            }
        }
        self.save(session, shared, &changes).await
    }

    /// Writes changes that this replica has already made to its copy.
    async fn save(
        &self,
        session: &Session,
        shared: &SharedSession,
        changes: &[SessionChange],
    ) -> Result<bool, BackendError> {
        if changes.is_empty() {
            return Ok(true);
        }
        let saving = shared.saving.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            let read_by = self.replica.slot();
            let StoredSession { mut record, version, .. } = shared.stored(session, self.replica.server_name());
            let mut unsubscribed: Vec<_> = changes
                .iter()
                .filter_map(|change| match change {
                    SessionChange::Unsubscribed(uri) if record.resources.contains(uri) => Some(uri.clone()),
                    _ => None,
                })
                .collect();
            for change in changes {
                record.apply(change).map_err(|RecordFull| BackendError::Full)?;
            }
            record.revision += 1;
            unsubscribed.retain(|uri| !record.resources.contains(uri));
            if unsubscribed.iter().map(String::len).sum::<usize>() > MAX_SENT_BYTES {
                unsubscribed.clear();
            }
            let condition = RecordCondition::Version(version);
            let written = self.write(&shared.id, condition, &record).await;
            match written? {
                Some(version) => {
                    let revision = record.revision;
                    shared.adopt(session, StoredSession { record, version, read_by }, self.replica.server_name());
                    drop(saving);
                    self.announce(&shared.id, Event::Changed { revision, unsubscribed }).await?;
                    return Ok(true);
                }
                None if !self.refresh(session).await? => return Ok(false),
                None => {}
            }
        }
        Err(BackendError::Unavailable("the record of a session changes too often".to_owned()))
    }

    /// Sends an event of a session to all replicas, including this replica.
    pub(super) async fn announce(&self, session: &str, event: Event) -> Result<(), BackendError> {
        self.replica.announce(SESSION_MESSAGES, &event.encode(session)).await
    }

    /// Extends the time for which a session is kept, unless a replica has just done so. Returns `false` if it has ended.
    pub(super) async fn renew(&self, session: &Session) -> Result<bool, BackendError> {
        let Some(shared) = SharedSession::of(session) else { return Ok(true) };
        for _ in 0..MAX_ATTEMPTS {
            if !self.is_unused_for(shared.renewed(), self.unused_after / 4) {
                return Ok(true);
            }
            let StoredSession { mut record, version, .. } = shared.stored(session, self.replica.server_name());
            record.renewed = Some(self.replica.clock().now());
            // First, since the session counts as renewed once its record is written.
            self.renew_peer(&shared.id, &record.peer).await?;
            let condition = RecordCondition::Version(version);
            if let Some(version) = self.write(&shared.id, condition, &record).await? {
                shared.set_renewed(record.revision, version, record.renewed);
                return Ok(true);
            }
            if !self.refresh(session).await? {
                let key = member_key(PEER, &record.peer, &shared.id);
                // If this fails, the record expires.
                let _ = with_timeout(self.backend().delete(&key, RecordCondition::Always)).await;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes a session, and tells the other replicas that it has ended.
    pub(super) async fn delete(&self, session: &Session) -> Result<(), BackendError> {
        let Some(shared) = SharedSession::of(session) else { return Ok(()) };
        self.remove(&shared.id, &shared.peer()).await
    }

    /// Deletes a session of a peer, and tells the other replicas that it has ended.
    pub(super) async fn remove(&self, id: &str, peer: &str) -> Result<(), BackendError> {
        let always = RecordCondition::Always;
        with_timeout(self.backend().delete(&key(SESSION, id), always)).await?;
        with_timeout(self.backend().delete(&member_key(PEER, peer, id), always)).await?;
        self.announce(id, Event::Ended).await
    }

    /// Stores the answer to a request of another replica, which may miss messages, and sends the answer to that replica.
    async fn forward_answer(
        &self,
        shared: &SharedSession,
        request: u64,
        answer: &InputResponse,
    ) -> Result<(), BackendError> {
        let Some(owner) = self.owner(request) else { return Ok(()) };
        let value = encode_answer(answer);
        let sent = (value.len() <= MAX_SENT_BYTES).then(|| serde_json::from_slice(&value).ok()).flatten();
        let (group, name) = (key(ANSWERS, &shared.id), request.to_string());
        let (account, per_account) = if sent.is_some() { ("sent", MAX_ANSWERS.0) } else { ("read", MAX_ANSWERS.1) };
        let quota = RecordQuota { account, per_account, total: MAX_ANSWERS.0 + MAX_ANSWERS.1 };
        let insertion =
            unless_full(with_timeout(self.backend().insert(&group, &name, value, ANSWER_TTL, quota)).await)?;
        if sent.is_none() && matches!(insertion, Insertion::Full { .. }) {
            return Err(BackendError::Full);
        }
        let answered = Event::Answered { request, answer: sent };
        self.replica.send(owner, SESSION_MESSAGES, &answered.encode(&shared.id)).await
    }

    /// Takes the answer that another replica has received to a request of this replica.
    pub(super) async fn take_answer(&self, id: &str, request: u64) -> Result<Option<InputResponse>, BackendError> {
        let key = member_key(ANSWERS, id, request);
        let Some(found) = with_timeout(self.backend().get(&key)).await? else { return Ok(None) };
        self.forget_answer(id, request).await;
        Ok(serde_json::from_slice(&found.value).ok())
    }

    /// Deletes an answer that was delivered. If this fails, the record expires.
    pub(super) async fn forget_answer(&self, id: &str, request: u64) {
        let _ = with_timeout(self.backend().delete(&member_key(ANSWERS, id, request), RecordCondition::Always)).await;
    }

    /// Stores the cancellation of a call, and tells the other replicas, one of which may run the call.
    async fn cancel(&self, shared: &SharedSession, request: String) -> Result<(), BackendError> {
        // A replica that receives no messages for longer than this, but still renews its lease, misses the cancellation, and its call
        // continues.
        let ttl = CANCELLATION_TTL.max(self.replica.lease() * 2);
        let (group, name) = (key(CANCELLATIONS, &shared.id), hashed_name(&request));
        let quota = RecordQuota { account: "", per_account: 0, total: MAX_CANCELLATIONS };
        let value = request.clone().into_bytes();
        unless_full(with_timeout(self.backend().insert(&group, &name, value, ttl, quota)).await)?;
        self.announce(&shared.id, Event::Cancelled { request }).await
    }

    /// Returns the ids, as JSON, of the calls of a session whose cancellations are stored.
    pub(super) async fn cancellations(&self, id: &str) -> Result<Vec<String>, BackendError> {
        let found = with_timeout(self.backend().list(&key(CANCELLATIONS, id), None, MAX_CANCELLATIONS)).await?;
        Ok(found.into_iter().filter_map(|(_, record)| String::from_utf8(record.value.to_vec()).ok()).collect())
    }

    /// Deletes the cancellation of a call that has taken effect. If this fails, the record expires.
    pub(super) async fn forget_cancellation(&self, id: &str, request: &str) {
        let key = member_key(CANCELLATIONS, id, hashed_name(request));
        let _ = with_timeout(self.backend().delete(&key, RecordCondition::Always)).await;
    }

    /// Returns the other replica that has sent a request with this id.
    fn owner(&self, request: u64) -> Option<Slot> {
        Slot::of_id(request).filter(|owner| self.replica.slot() != Some(*owner))
    }

    /// Writes the record of a session if the condition holds.
    async fn write(
        &self,
        id: &str,
        condition: RecordCondition,
        record: &SessionRecord,
    ) -> Result<Option<RecordVersion>, BackendError> {
        // Fails only for maps with keys that are not strings.
        let value = serde_json::to_vec(record).unwrap_or_default();
        with_timeout(self.backend().set(&key(SESSION, id), condition, value, self.ttl)).await
    }

    /// Counts a new session towards its peer. Returns `false` if the peer has too many.
    async fn insert_peer(&self, id: &str, peer: &str) -> Result<bool, BackendError> {
        let quota = RecordQuota { account: "", per_account: 0, total: self.max_per_peer };
        let group = key(PEER, peer);
        let insertion = with_timeout(self.backend().insert(&group, id, self.now(), self.ttl, quota)).await?;
        Ok(!matches!(insertion, Insertion::Full { .. }))
    }

    /// Records that the session is in use.
    async fn renew_peer(&self, id: &str, peer: &str) -> Result<(), BackendError> {
        let key = member_key(PEER, peer, id);
        with_timeout(self.backend().set(&key, RecordCondition::Always, self.now(), self.ttl)).await.map(drop)
    }

    fn now(&self) -> Vec<u8> {
        self.replica.clock().now().as_unix_millis().to_string().into_bytes()
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        self.replica.backend()
    }
}

/// Treats a backend that is full like a quota that is: what is not stored is only announced.
fn unless_full(insertion: Result<Insertion, BackendError>) -> Result<Insertion, BackendError> {
    match insertion {
        Err(BackendError::Full) => Ok(Insertion::Full { of_account: 0, in_total: 0 }),
        insertion => insertion,
    }
}

// The kinds of records: of the sessions, and of what counts towards a peer or waits for a replica.
const SESSION: &str = "session";
const PEER: &str = "sessions-of";
const ANSWERS: &str = "answers";
const CANCELLATIONS: &str = "cancelled";

/// Returns the key of the record of a session, or the name of a group of records of a peer or session.
fn key(kind: &str, id: &str) -> String {
    format!("mcp/1/{kind}/{id}")
}

/// Returns the key of a record of a group.
fn member_key(kind: &str, id: &str, name: impl Display) -> String {
    format!("{}:{name}", key(kind, id))
}

/// Returns a name for any text, which can be part of a key.
pub(super) fn hashed_name(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..16])
}

/// Encodes an answer, or the error that replaces it if it is too long.
fn encode_answer(answer: &InputResponse) -> Vec<u8> {
    let value = serde_json::to_vec(answer).unwrap_or_default();
    if value.len() <= MAX_ANSWER_BYTES {
        return value;
    }
    let error = format!("the response is too long for another replica: the limit is {MAX_ANSWER_BYTES} bytes");
    serde_json::to_vec(&InputResponse::Error(error)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::time::{advance, sleep};

    use super::*;
    use crate::{
        backend::{BackendFuture, MemoryBackend},
        cluster::sessions::record::{invalidate, invalidate_missed},
        engine::{Subscriber, Subscriptions},
        registry::ListSet,
        revision,
        stdx::Mutex,
        testing::test_backend::{BackendHook, BackendMethod, BackendOperation, Failing, TestBackend},
    };

    /// Announces a change of a session whenever its record was read.
    #[derive(Debug, Default)]
    struct Changing(OnceLock<Arc<Session>>);

    impl BackendHook for Changing {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            operation: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            let is_read = operation.method == BackendMethod::Get && operation.key.starts_with("mcp/1/session/");
            Box::pin(async move {
                let result = run.await;
                self.0.get().into_iter().filter(|_| is_read).for_each(|session| invalidate(session));
                result
            })
        }
    }

    /// The record may have been read before the change.
    #[tokio::test(start_paused = true)]
    async fn a_session_that_changes_while_it_is_read_again_is_still_outdated() {
        let interval = Duration::from_secs(60);
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Changing::default()));
        let replica = Arc::new(Replica::new(Arc::clone(&backend) as Arc<dyn Backend>, interval));
        let store = SessionStore::new(replica, interval * 60, interval, 1);
        let session = Arc::new(Session::for_test());
        let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
        let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
        let is_stale = || SharedSession::of(&session).unwrap().is_stale();
        invalidate(&session);
        assert!(store.refresh(&session).await.unwrap());
        assert!(!is_stale(), "nothing has changed meanwhile");
        backend.0.set(Arc::clone(&session)).unwrap();
        invalidate(&session);
        assert!(store.refresh(&session).await.unwrap());
        assert!(is_stale());
    }

    /// The replica may have missed the messages about both the subscription and a change.
    #[tokio::test(start_paused = true)]
    async fn a_subscription_whose_message_may_be_missed_counts_as_updated() {
        type Outdate = fn(&Session);
        // A later change of the session makes no difference.
        let outdates: [(Outdate, bool); 3] = [
            (invalidate, false),
            (invalidate_missed, true),
            (
                |session| {
                    invalidate_missed(session);
                    invalidate(session);
                },
                true,
            ),
        ];
        for (outdate, is_updated) in outdates {
            let interval = Duration::from_secs(60);
            let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
            let store = SessionStore::new(replica, interval * 60, interval, 1);
            let (subscriptions, mut session) = (Arc::<Subscriptions>::default(), Session::for_test());
            let subscriber = Subscriber::of_session(
                &subscriptions,
                &session.outbox,
                ListSet::listed_in(revision::newest_handshake()),
            );
            session.subscriber = Some(subscriber);
            let session = Arc::new(session);
            let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
            let mut record = stored.record.clone();
            record.apply(&SessionChange::Subscribed("a:b".to_owned())).unwrap();
            record.revision += 1;
            store.write("id", RecordCondition::Version(stored.version), &record).await.unwrap().unwrap();
            let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
            subscriptions.everything_changed(ListSet::ALL);
            outdate(&session);
            assert!(store.refresh(&session).await.unwrap());
            let mut output = Vec::new();
            session.outbox.drain_pending(&mut output);
            let output = String::from_utf8(output).unwrap();
            assert_eq!(output.contains("notifications/resources/updated"), is_updated, "{output}");
        }
    }

    /// Clients that were active recently keep their sessions.
    #[tokio::test(start_paused = true)]
    async fn the_session_unused_longest_is_evicted() {
        const SESSIONS: usize = 10;
        let interval = Duration::from_secs(60);
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, interval * 60, interval, SESSIONS);
        let create =
            async |id: &str| store.create(id, &Session::for_test(), "peer".to_owned()).await.unwrap().is_some();
        // Neither the order of the ids nor its opposite.
        let id = |number: usize| (number * 3 % SESSIONS).to_string();
        for number in 0..SESSIONS {
            assert!(create(&id(number)).await);
            sleep(interval).await;
        }
        for oldest in 0..3 {
            assert!(create(&format!("new {oldest}")).await);
            for number in 0..SESSIONS {
                let is_known = store.load(&id(number)).await.unwrap().is_some();
                assert_eq!(is_known, number > oldest, "{number} after {oldest}");
            }
        }
    }

    /// The sample ends with the first sessions if it begins with one of the last.
    #[tokio::test(start_paused = true)]
    async fn an_eighth_of_a_sample_is_evicted_wherever_it_begins() {
        const SESSIONS: usize = 2 * EVICTION_SAMPLE;
        for begin in [0, SESSIONS / 2, SESSIONS * 3 / 4, SESSIONS] {
            let interval = Duration::from_secs(60);
            let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
            let store = SessionStore::new(replica, interval * 60, interval, SESSIONS);
            let session = Session::for_test();
            let create = async |id: String| store.create(&id, &session, "peer".to_owned()).await.unwrap().is_some();
            for number in 0..SESSIONS {
                assert!(create(format!("{number:03}")).await);
            }
            sleep(interval * 3).await;
            assert!(create(format!("{begin:03} new")).await);
            let left = store.backend().count(&key(PEER, "peer")).await.unwrap();
            assert_eq!(left, SESSIONS - EVICTION_SAMPLE / 8 + 1, "{begin}");
        }
    }

    /// A replica may be using the session until the end of the time after which it is unused.
    #[tokio::test(start_paused = true)]
    async fn a_session_that_may_be_in_use_is_not_evicted() {
        let interval = Duration::from_secs(60);
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, interval * 60, interval, 1);
        let create =
            async |id: &str| store.create(id, &Session::for_test(), "peer".to_owned()).await.unwrap().is_some();
        assert!(create("first").await);
        advance(store.unused_after).await;
        assert!(!create("second").await);
        advance(Duration::from_millis(1)).await;
        assert!(create("second").await);
    }

    /// Returns a session of the store, with an id.
    async fn opened(store: &SessionStore) -> Session {
        let session = Session::for_test();
        let stored = store.create("id", &session, "peer".to_owned()).await.unwrap().unwrap();
        let _ = session.shared.set(Box::new(SharedSession::new("id".into(), stored, "")));
        session
    }

    /// Another replica has written the record, or has deleted it.
    #[tokio::test(start_paused = true)]
    async fn a_session_is_renewed_unless_it_has_ended() {
        for has_ended in [false, true] {
            let (interval, always) = (Duration::from_secs(60), RecordCondition::Always);
            let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
            let store = SessionStore::new(replica, interval * 60, interval, 1);
            let session = opened(&store).await;
            sleep(interval).await;
            let (key, backend) = (key(SESSION, "id"), store.backend());
            let record = backend.get(&key).await.unwrap().unwrap();
            if has_ended {
                assert!(backend.delete(&key, always).await.unwrap());
            } else {
                backend.set(&key, always, record.value.to_vec(), interval).await.unwrap();
            }
            assert_eq!(store.renew(&session).await, Ok(!has_ended));
            assert_eq!(session.has_ended(), has_ended);
            let counted = backend.get(&member_key(PEER, "peer", "id")).await.unwrap();
            assert_eq!(counted.is_some(), !has_ended, "it counts for its peer");
            sleep(interval * 2).await;
            assert_eq!(store.load("id").await.unwrap().is_some(), !has_ended);
        }
    }

    /// Returns a store, and the last message that it has published.
    fn publishing() -> (SessionStore, Arc<Mutex<Vec<u8>>>) {
        let last = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&last);
        let keep = move |operation: BackendOperation<'_>| {
            if operation.method == BackendMethod::Publish {
                *kept.lock() = operation.value.to_owned();
            }
            Ok(())
        };
        let backend = TestBackend::<_, MemoryBackend>::new(Failing(keep));
        let replica = Arc::new(Replica::new(Arc::new(backend), Duration::from_secs(60)));
        let store = SessionStore::new(replica, Duration::from_secs(3600), Duration::from_secs(60), 1);
        (store, last)
    }

    /// A replica may use its copy until the end of the time for which a session is kept.
    #[tokio::test(start_paused = true)]
    async fn the_record_of_a_session_outlives_its_copies() {
        let (idle, interval) = (Duration::from_secs(3600), Duration::from_secs(60));
        let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), interval));
        let store = SessionStore::new(replica, idle, interval, 1);
        let _session = opened(&store).await;
        for (time, is_known) in [(idle, true), (interval * 2, false)] {
            sleep(time).await;
            assert_eq!(store.load("id").await.unwrap().is_some(), is_known, "{time:?}");
        }
    }

    /// The message about the end of a subscription must not end a newer one.
    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_is_replaced_at_once_is_not_announced_as_ended() {
        let (store, last) = publishing();
        let session = opened(&store).await;
        let [subscribed, unsubscribed]: [fn(String) -> SessionChange; 2] =
            [SessionChange::Subscribed, SessionChange::Unsubscribed];
        for (changes, is_announced) in [
            (&[subscribed][..], false),
            (&[unsubscribed, subscribed], false),
            (&[unsubscribed, subscribed, unsubscribed], true),
        ] {
            let changes = changes.iter().map(|change| SessionMessage::Change(change("memo://one".to_owned())));
            assert!(store.send(&session, changes.collect()).await.unwrap());
            let published = String::from_utf8(last.lock().clone()).unwrap();
            assert_eq!(published.contains("memo://one"), is_announced, "{published}");
        }
    }

    /// The URIs that a client has unsubscribed from are announced unless they are long. URIs to which it was not subscribed
    /// do not count.
    #[tokio::test(start_paused = true)]
    async fn announcements_of_changes_are_short() {
        let [short, fitting, long] = [10, MAX_SENT_BYTES - 10, MAX_SENT_BYTES].map(|length| "x".repeat(length));
        for (unsubscribed, is_announced) in
            [(vec![&short], true), (vec![&short, &fitting], true), (vec![&short, &long], false)]
        {
            for is_subscribed in [true, false] {
                let (store, last) = publishing();
                let session = opened(&store).await;
                let change = async |change: fn(String) -> SessionChange, uris: &[&String]| {
                    let changes = uris.iter().map(|uri| SessionMessage::Change(change((*uri).clone())));
                    assert!(store.send(&session, changes.collect()).await.unwrap());
                };
                let subscribed = if is_subscribed { unsubscribed.clone() } else { vec![&short] };
                change(SessionChange::Subscribed, &subscribed).await;
                change(SessionChange::Unsubscribed, &unsubscribed).await;
                let published = last.lock().clone();
                let is_short = published.len() < MAX_SENT_BYTES + 200;
                let has_uri = String::from_utf8(published).unwrap().contains(&format!("\"{short}\""));
                let case = format!("{is_subscribed} {}", unsubscribed.len());
                assert_eq!((is_short, has_uri), (true, is_announced || !is_subscribed), "{case}");
            }
        }
    }

    /// The replica that runs the call may hear no messages for the time of its lease.
    #[tokio::test(start_paused = true)]
    async fn a_cancellation_is_kept_for_longer_than_a_lease() {
        for lease in [CANCELLATION_TTL / 6, CANCELLATION_TTL * 10] {
            let replica = Arc::new(Replica::new(Arc::new(MemoryBackend::default()), lease));
            let store = SessionStore::new(replica, lease, lease, 1);
            let session = opened(&store).await;
            assert!(store.send(&session, vec![SessionMessage::Cancel("1".to_owned())]).await.unwrap());
            sleep(lease).await;
            assert_eq!(store.cancellations("id").await.unwrap(), ["1"], "{lease:?}");
        }
    }

    /// The replica that runs a call or asks a question hears of what is not stored.
    #[tokio::test(start_paused = true)]
    async fn messages_are_sent_while_the_backend_is_full() {
        let (is_full, published) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<String>>::default());
        let (full, last) = (Arc::clone(&is_full), Arc::clone(&published));
        let fail = move |operation: BackendOperation<'_>| match operation.method {
            BackendMethod::Insert if full.load(Ordering::Relaxed) => Err(BackendError::Full),
            BackendMethod::Publish => {
                *last.lock() = String::from_utf8_lossy(operation.value).into_owned();
                Ok(())
            }
            _ => Ok(()),
        };
        let backend = TestBackend::<_, MemoryBackend>::new(Failing(fail));
        let replica = Arc::new(Replica::new(Arc::new(backend), Duration::from_secs(60)));
        let store = SessionStore::new(replica, Duration::from_secs(3600), Duration::from_secs(60), 1);
        let session = opened(&store).await;
        is_full.store(true, Ordering::Relaxed);
        let asked = store.replica.next_id(store.replica.slot().unwrap()) ^ 1 << 32;
        let (small, large) = (InputResponse::Error("no".to_owned()), InputResponse::Error("x".repeat(MAX_SENT_BYTES)));
        for (message, expected) in [
            (SessionMessage::Cancel("1".to_owned()), Ok("cancelled")),
            (SessionMessage::Answer(asked, small), Ok("answered")),
            (SessionMessage::Answer(asked, large), Err(BackendError::Full)),
        ] {
            let sent = store.send(&session, vec![message]).await;
            assert_eq!(sent, expected.as_ref().map(|_| true).map_err(Clone::clone));
            assert!(expected.is_err() || published.lock().contains(expected.unwrap()), "{}", published.lock());
        }
    }
}
