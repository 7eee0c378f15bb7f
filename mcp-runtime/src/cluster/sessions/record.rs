use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    backend::{BackendError, RecordVersion, Timestamp},
    engine::{
        Declared, Engine, FlowControl, InputResponse, MAX_RESOURCES, MAX_URI_BYTES, Session, SessionChange, Slot,
    },
    handler::{ClientInfo, SessionInfo},
    registry::ListSet,
    revision,
    stdx::Mutex,
};

/// A session as the backend keeps it, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    /// The protocol version.
    pub(super) version: String,
    /// The client's capabilities, as JSON.
    pub(super) capabilities: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    /// The name of the server that opened the session. Empty if a release did that does not write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) server: String,
    /// The peer whose share of the sessions this one uses.
    pub(super) peer: String,
    /// The time at which the session was last renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renewed: Option<Timestamp>,
    /// The lists whose changes the server declared in `initialize` that it announces, as bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lists: Option<u8>,
    /// Whether the server declared in `initialize` that it sends log messages.
    #[serde(default)]
    pub(super) declares_logging: bool,
    /// The name of the log level, if the client has set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<String>,
    /// The number of changes of the roots that the client has announced.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) roots: u64,
    /// The URIs of the resources that the client has subscribed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    /// The number of changes since the session was opened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) revision: u64,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    pub(super) other: Map<String, Value>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The error for a record with more than [`MAX_RESOURCES`] or [`MAX_URI_BYTES`].
#[derive(Debug)]
pub(super) struct RecordFull;

impl SessionRecord {
    /// Returns whether the session belongs to this principal, or, without one, to no principal.
    pub(super) fn belongs_to(&self, principal: Option<&str>) -> bool {
        self.principal.as_deref() == principal
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// Fails if the record would become too large.
    pub(super) fn apply(&mut self, change: &SessionChange) -> Result<(), RecordFull> {
        match change {
            SessionChange::Level(level) => self.level = Some(level.as_str().to_owned()),
            SessionChange::RootsChanged => self.roots += 1,
            SessionChange::Unsubscribed(uri) => self.resources.retain(|known| known != uri),
            SessionChange::Subscribed(uri) => {
                if !self.resources.contains(uri) {
                    let bytes = self.resources.iter().map(String::len).sum::<usize>() + uri.len();
                    if self.resources.len() >= MAX_RESOURCES || bytes > MAX_URI_BYTES {
                        return Err(RecordFull);
                    }
                    self.resources.push(uri.clone());
                }
            }
        }
        Ok(())
    }

    /// Returns the record of a session that was opened in this process.
    pub(super) fn new(session: &Session, peer: String, server: &str) -> Self {
        Self {
            version: session.info.dialect.name().to_owned(),
            capabilities: session.info.capabilities.as_ref().to_owned(),
            client: session.info.client.clone(),
            principal: session.info.principal.as_deref().map(str::to_owned),
            server: server.to_owned(),
            peer,
            lists: session.subscriber.as_ref().map(|subscriber| subscriber.lists.0),
            declares_logging: session.declares_logging,
            ..Self::default()
        }
    }

    /// Creates a copy of the session. Returns `None` if its version is unknown.
    pub(super) fn restore(&self, engine: &Arc<Engine>) -> Option<Arc<Session>> {
        let info = SessionInfo {
            dialect: revision::handshake(&self.version)?,
            client: self.client.clone(),
            capabilities: self.capabilities.as_str().into(),
            principal: self.principal.as_deref().map(Into::into),
        };
        let lists = self.lists.map(|lists| ListSet(lists).and(ListSet::ALL));
        let declared = Declared { lists, logging: self.declares_logging };
        let session = engine.restore_session(info, declared);
        adopt(&session, self.roots, self)();
        // This process may have missed changes since the session was opened.
        if let Some(subscriber) = &session.subscriber {
            subscriber.everything_changed(engine.registry().capabilities.lists());
        }
        Some(session)
    }

    /// # Errors
    ///
    /// Fails if the record cannot be read. A newer release may have written it, so the session exists.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BackendError> {
        let unreadable = |error| BackendError::Unavailable(format!("invalid record of a session: {error}"));
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

/// Adopts the changes of other replicas, after a number of changes of the roots. Returns a function that tells the author's
/// code of subscriptions, for the caller to run without locks.
fn adopt<'a>(session: &'a Session, roots: u64, after: &SessionRecord) -> impl FnOnce() + use<'a> {
    // A copy counts as initialized, and so does a session whose record is read again: the record does not tell. The server
    // may therefore send requests before `notifications/initialized`.
    session.set_initialized();
    // Without a stored level, the initial one applies, since a change here may have failed. Levels that only a newer
    // release knows are ignored.
    if let Ok(level) = after.level.as_deref().map_or(Ok(FlowControl::INITIAL_LEVEL), str::parse) {
        session.outbox.flow.set_level(level);
    }
    let updates = SharedSession::of(session).and_then(SharedSession::updates);
    let subscriber = session.subscriber.as_ref();
    let tell = subscriber.map(|subscriber| subscriber.set_resources(&after.resources, updates));
    if roots != after.roots {
        session.roots.invalidate();
    }
    || tell.into_iter().for_each(|tell| tell())
}

/// Requires that the record of a session is read again before the session is used.
pub(super) fn invalidate(session: &Session) {
    if let Some(shared) = SharedSession::of(session) {
        shared.invalidate(session.subscriber.as_ref().map_or(0, |subscriber| subscriber.updates()));
    }
}

/// Like [`invalidate`], after messages that this process may have missed, among them those about a new subscription and a
/// change of its resource.
pub(super) fn invalidate_missed(session: &Session) {
    if let Some(shared) = SharedSession::of(session) {
        shared.invalidate(UNKNOWN);
    }
}

/// The number of updates if there may have been others.
const UNKNOWN: u64 = u64::MAX;

/// A message between replicas about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Announcement {
    /// The id of the session. Empty if the event concerns all sessions.
    pub(super) session: String,
    pub(super) event: Event,
}

/// An event of a session. Messages with events that a newer release adds are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// The record has this revision or a newer revision.
    Changed {
        revision: u64,
        /// The URIs that the client has unsubscribed from, for which no update may follow while the record is read. Empty if
        /// they are long.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsubscribed: Vec<String>,
    },
    /// The client has sent `notifications/initialized`.
    Initialized,
    /// Any session may have changed or ended.
    AllChanged,
    /// The session has ended.
    Ended,
    /// The client has cancelled a request with this id, as JSON.
    Cancelled { request: String },
    /// The client has responded to a request of the replica that receives this. The response is a record, and a small
    /// one is sent as well.
    Answered { request: u64, answer: Option<InputResponse> },
    /// The client has reported progress of a request of the replica that receives this.
    Progressed { request: u64, progress: f64, total: Option<f64>, message: Option<String> },
}

impl Event {
    /// Returns the message about an event of a session.
    pub(super) fn encode(self, session: &str) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(&Announcement { session: session.to_owned(), event: self }).unwrap_or_default()
    }
}

/// A session as it was read.
#[derive(Debug, Clone)]
pub(super) struct StoredSession {
    pub(super) record: SessionRecord,
    pub(super) version: RecordVersion,
    /// The slot that this replica had before it read the session.
    pub(super) read_by: Option<Slot>,
}

/// The local copy of what the backend knows about a session, beyond what the session itself contains.
#[derive(Debug)]
pub(super) struct SharedSession {
    pub(super) id: Arc<str>,
    copy: Mutex<RecordCopy>,
    /// Held while a change of this replica is written, so that its changes do not conflict with each other.
    pub(super) saving: tokio::sync::Mutex<()>,
    /// The number of times that the copy may have become outdated, and how many of these the record was read after. If
    /// they differ, the record must be read again before the session is used.
    invalidations: AtomicU64,
    validated: AtomicU64,
    /// The number of updates of resources of which the process had heard when the copy became outdated. It may have missed
    /// later updates, because it did not know their subscriptions, or any, if this is [`UNKNOWN`].
    updates: AtomicU64,
    /// Whether the session was not used for so long that it must be renewed when it is.
    is_unused: AtomicBool,
}

impl SharedSession {
    /// Returns what this process knows about a session that other processes share.
    pub(super) fn of(session: &Session) -> Option<&Self> {
        session.shared.get()?.downcast_ref()
    }

    /// Creates the copy of a record at a replica of the server with this name.
    pub(super) fn new(id: Arc<str>, stored: StoredSession, server: &str) -> Self {
        let (invalidations, validated) = (AtomicU64::new(0), AtomicU64::new(0));
        let (updates, is_unused) = (AtomicU64::new(0), AtomicBool::new(false));
        let (copy, saving) = (Mutex::new(RecordCopy::new(stored, server)), tokio::sync::Mutex::default());
        Self { id, copy, saving, invalidations, validated, updates, is_unused }
    }

    /// Records that the session must be renewed when it is used.
    pub(super) fn set_unused(&self) {
        self.is_unused.store(true, Ordering::Relaxed);
    }

    /// Returns whether the session, which is used, must be renewed.
    pub(super) fn take_unused(&self) -> bool {
        self.is_unused.load(Ordering::Relaxed) && self.is_unused.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.validated.load(Ordering::Acquire) < self.invalidations()
    }

    /// Requires that the record is read again before the session is used. `updates` is the number of updates of resources
    /// of which the process has heard.
    pub(super) fn invalidate(&self, updates: u64) {
        if updates == UNKNOWN || !self.is_stale() {
            self.updates.store(updates, Ordering::Release);
        }
        self.invalidations.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of updates of resources of which the process had heard when the copy became outdated, or `None`
    /// if it is not.
    pub(super) fn updates(&self) -> Option<u64> {
        self.is_stale().then(|| self.updates.load(Ordering::Acquire))
    }

    /// Returns what to pass to [`validate`](Self::validate) after the record has been read.
    pub(super) fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::Acquire)
    }

    /// Records that the copy was replaced with a record that was read after this many invalidations.
    pub(super) fn validate(&self, invalidations: u64) {
        self.validated.fetch_max(invalidations, Ordering::AcqRel);
    }

    /// Returns the revision of the local copy.
    pub(super) fn revision(&self) -> u64 {
        self.copy.lock().revision
    }

    /// Returns the peer whose share of the sessions this one uses.
    pub(super) fn peer(&self) -> String {
        self.copy.lock().peer.to_string()
    }

    /// Returns when the session was last renewed.
    pub(super) fn renewed(&self) -> Option<Timestamp> {
        self.copy.lock().renewed
    }

    /// Returns the record of the session, at a replica of the server with this name.
    pub(super) fn stored(&self, session: &Session, server: &str) -> StoredSession {
        let copy = self.copy.lock();
        let mut record = SessionRecord::new(session, copy.peer.to_string(), server);
        record.renewed = copy.renewed;
        record.roots = copy.roots;
        record.revision = copy.revision;
        if let Some(uncommon) = copy.uncommon.as_deref() {
            let UncommonFields { server, level, resources, other } = uncommon.clone();
            record = SessionRecord { level, resources, other, server: server.unwrap_or(record.server), ..record };
        }
        StoredSession { record, version: copy.version, read_by: copy.read_by }
    }

    /// Returns whether the session was read or written since this replica has this slot. Before that, the end of the session may
    /// have been announced without this replica.
    pub(super) fn was_read_by(&self, slot: Option<Slot>) -> bool {
        slot.is_some() && self.copy.lock().read_by == slot
    }

    /// Adopts a record, unless the local copy is newer.
    pub(super) fn adopt(&self, session: &Session, stored: StoredSession, server: &str) {
        let mut copy = self.copy.lock();
        copy.read_by = stored.read_by;
        if stored.record.revision >= copy.revision {
            let tell = adopt(session, copy.roots, &stored.record);
            *copy = RecordCopy::new(stored, server);
            drop(copy);
            tell();
        }
    }

    /// Records a renewal of a record with this revision, unless it was changed meanwhile.
    pub(super) fn set_renewed(&self, revision: u64, version: RecordVersion, renewed: Option<Timestamp>) {
        let mut copy = self.copy.lock();
        if copy.revision == revision {
            (copy.version, copy.renewed) = (version, renewed);
        }
    }
}

/// A record without what the session contains.
#[derive(Debug)]
struct RecordCopy {
    version: RecordVersion,
    read_by: Option<Slot>,
    revision: u64,
    renewed: Option<Timestamp>,
    roots: u64,
    peer: Box<str>,
    /// `None` if it is empty, as it is for most sessions.
    uncommon: Option<Box<UncommonFields>>,
}

/// Members of the record that most sessions leave empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct UncommonFields {
    /// The server that has opened the session, if it has another name.
    server: Option<String>,
    level: Option<String>,
    resources: Vec<String>,
    other: Map<String, Value>,
}

impl RecordCopy {
    fn new(StoredSession { record, version, read_by }: StoredSession, server: &str) -> Self {
        let SessionRecord { revision, renewed, roots, level, resources, other, .. } = record;
        let server = Some(record.server).filter(|name| name != server);
        let uncommon = UncommonFields { server, level, resources, other };
        let uncommon = (uncommon != UncommonFields::default()).then(|| Box::new(uncommon));
        Self { version, read_by, revision, renewed, roots, peer: record.peer.into(), uncommon }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(session: &Session, revision: u64, version: u64) -> StoredSession {
        let record = SessionRecord {
            server: "former".to_owned(),
            renewed: Some(Timestamp::from_unix_millis(7)),
            level: Some("error".to_owned()),
            roots: 2,
            resources: vec!["memo://one".to_owned()],
            revision,
            other: Map::from_iter([("future".to_owned(), Value::from(1))]),
            ..SessionRecord::new(session, "peer".to_owned(), "own")
        };
        StoredSession { record, version: RecordVersion::new(version), read_by: None }
    }

    #[test]
    fn a_copy_returns_every_member_of_its_record() {
        let session = Session::for_test();
        let known = stored(&session, 3, 1);
        let copy = SharedSession::new("id".into(), known.clone(), "own").stored(&session, "own");
        assert_eq!((copy.record, copy.version), (known.record, known.version));
    }

    /// A subscription that exists already takes no room.
    #[test]
    fn the_subscriptions_of_a_record_are_bounded() {
        for (number, bytes) in [(MAX_RESOURCES, 10), (16, MAX_URI_BYTES / 16)] {
            let mut record = SessionRecord::new(&Session::for_test(), "peer".to_owned(), "own");
            let uri = |number: usize| format!("{number:bytes$}");
            let mut subscribe = |number| record.apply(&SessionChange::Subscribed(uri(number))).is_ok();
            assert!((0..number).all(&mut subscribe), "{number} of {bytes} bytes");
            assert!(subscribe(0) && !subscribe(number), "{number} of {bytes} bytes");
            record.apply(&SessionChange::Unsubscribed(uri(1))).unwrap();
            record.apply(&SessionChange::Subscribed(uri(number))).unwrap();
            assert_eq!(record.resources.len(), number);
        }
    }

    /// A renewal changes the version of a record, and not its revision.
    #[test]
    fn an_older_record_does_not_replace_a_copy() {
        let session = Session::for_test();
        let shared = SharedSession::new("id".into(), stored(&session, 3, 1), "own");
        for (revision, version, kept) in [(2, 2, 1), (3, 3, 3), (4, 4, 4), (3, 5, 4)] {
            shared.adopt(&session, stored(&session, revision, version), "own");
            assert_eq!(shared.stored(&session, "own").version, RecordVersion::new(kept), "{revision} {version}");
        }
    }

    #[test]
    fn a_renewal_of_a_record_that_was_changed_meanwhile_is_ignored() {
        let session = Session::for_test();
        let shared = SharedSession::new("id".into(), stored(&session, 3, 1), "own");
        for (revision, version, kept) in [(2, 2, 1), (3, 2, 2), (4, 3, 2)] {
            shared.set_renewed(revision, RecordVersion::new(version), None);
            assert_eq!(shared.stored(&session, "own").version, RecordVersion::new(kept), "{revision} {version}");
        }
    }

    #[test]
    fn a_copy_knows_since_when_it_is_outdated() {
        let shared = SharedSession::new("id".into(), stored(&Session::for_test(), 0, 1), "own");
        assert_eq!(shared.updates(), None);
        shared.invalidate(5);
        let read = shared.invalidations();
        shared.invalidate(9);
        shared.validate(read);
        assert_eq!(shared.updates(), Some(5), "it has changed since it was read");
        shared.validate(shared.invalidations());
        // An earlier read may end later.
        shared.validate(read);
        assert_eq!(shared.updates(), None);
    }
}
