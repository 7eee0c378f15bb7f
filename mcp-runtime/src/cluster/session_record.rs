use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    backend::{BackendError, RecordVersion},
    engine::{InputResponse, MAX_RESOURCES, MAX_URI_BYTES},
    handler::{ClientInfo, ask::ClientProgress},
    model::Level,
};

/// A session as the backend keeps it, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// The protocol version.
    pub(crate) version: String,
    /// The client's capabilities, as JSON.
    pub(crate) capabilities: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<String>,
    /// The name of the server that opened the session. Empty if a release did that does not write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) server: String,
    /// The peer whose share of the sessions this one uses.
    pub(crate) peer: String,
    /// Whether the server declared in `initialize` that its lists may change.
    #[serde(default)]
    pub(crate) announces_changes: bool,
    /// Whether the server declared in `initialize` that it sends log messages.
    #[serde(default)]
    pub(crate) declares_logging: bool,
    #[serde(default)]
    pub(crate) initialized: bool,
    /// The name of the log level, if the client has set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<String>,
    /// The number of changes of the roots that the client has announced.
    #[serde(default)]
    pub(crate) roots: u64,
    /// The URIs of the resources that the client has subscribed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    /// The number of changes since the session was opened.
    #[serde(default)]
    pub(crate) revision: u64,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

/// A change of a session by its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    Initialized,
    Level(Level),
    Subscribed(String),
    Unsubscribed(String),
    RootsChanged,
}

/// The error for a record with more than [`MAX_RESOURCES`] or [`MAX_URI_BYTES`].
#[derive(Debug)]
pub(crate) struct RecordFull;

impl SessionRecord {
    /// Returns whether the session belongs to this principal, or, without one, to no principal.
    pub(crate) fn belongs_to(&self, principal: Option<&str>) -> bool {
        self.principal.as_deref() == principal
    }

    /// Makes a change. Returns `false` if the record is known to contain it, whatever other replicas have changed.
    ///
    /// # Errors
    ///
    /// Fails if the record would become too large.
    pub(crate) fn apply(&mut self, change: &SessionChange) -> Result<bool, RecordFull> {
        match change {
            SessionChange::Initialized => return Ok(!std::mem::replace(&mut self.initialized, true)),
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
        Ok(true)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// # Errors
    ///
    /// Fails if the record cannot be read. A newer release may have written it, so the session exists.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BackendError> {
        let unreadable = |error| BackendError::Unavailable(format!("invalid record of a session: {error}"));
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

/// A message between replicas about a session. Variants that a newer release adds are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Announcement {
    /// The record has this revision or a newer one.
    Changed { session: String, revision: u64 },
    /// Any session may have changed or ended.
    AllChanged,
    /// The session has ended.
    Ended { session: String },
    /// The client has cancelled a request with this id, as JSON.
    Cancelled { session: String, request: String },
    /// The client has responded to a request of the replica that receives this. The response is a record, and a small
    /// one is sent as well.
    Answered { session: String, request: u64, answer: Option<InputResponse> },
    /// The client has reported progress of a request of the replica that receives this.
    Progressed { session: String, request: u64, progress: f64, total: Option<f64>, message: Option<String> },
}

impl Announcement {
    pub(crate) fn progressed(session: &str, request: u64, report: ClientProgress) -> Self {
        let ClientProgress { progress, total, message } = report;
        Self::Progressed { session: session.to_owned(), request, progress, total, message }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns `None` for an announcement that this release does not know.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A message of a client that concerns other replicas.
#[derive(Debug)]
pub(crate) enum SessionMessage {
    Change(SessionChange),
    /// The response to a request of another replica.
    Answer(u64, InputResponse),
    /// Progress of a request of another replica.
    Progress(u64, ClientProgress),
    /// The cancellation of a request that does not run on this replica. Contains its id as JSON.
    Cancel(String),
}

/// A session as it was read.
#[derive(Debug, Clone)]
pub(crate) struct StoredSession {
    pub(crate) record: SessionRecord,
    pub(crate) version: RecordVersion,
}

/// The local copy of what the backend knows about a session.
#[derive(Debug)]
pub(crate) struct SharedSession {
    pub(crate) id: Arc<str>,
    stored: Mutex<StoredSession>,
    /// The number of times that the copy may have become outdated, and how many of these the record was read after. If
    /// they differ, the record must be read again before the session is used.
    invalidations: AtomicU64,
    validated: AtomicU64,
    /// The number of updates of resources of which the process had heard when the copy became outdated. It may have missed
    /// later ones, because it did not know their subscriptions.
    updates: AtomicU64,
    /// The newest revision that was announced to the other replicas, as far as this replica knows.
    announced: AtomicU64,
}

impl SharedSession {
    pub(crate) fn new(id: Arc<str>, stored: StoredSession) -> Self {
        let announced = AtomicU64::new(stored.record.revision);
        let (invalidations, validated) = (AtomicU64::new(0), AtomicU64::new(0));
        let updates = AtomicU64::new(0);
        Self { id, stored: Mutex::new(stored), invalidations, validated, updates, announced }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.validated.load(Ordering::Acquire) < self.invalidations()
    }

    /// Requires that the record is read again before the session is used. `updates` is the number of updates of resources
    /// of which the process has heard.
    pub(crate) fn invalidate(&self, updates: u64) {
        if !self.is_stale() {
            self.updates.store(updates, Ordering::Release);
        }
        self.invalidations.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of updates of resources of which the process had heard when the copy became outdated, or `None`
    /// if it is not.
    pub(crate) fn updates(&self) -> Option<u64> {
        self.is_stale().then(|| self.updates.load(Ordering::Acquire))
    }

    /// Returns what to pass to [`validate`](Self::validate) after the record has been read.
    pub(crate) fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::Acquire)
    }

    /// Records that the copy was replaced with a record that was read after this many invalidations.
    pub(crate) fn validate(&self, invalidations: u64) {
        self.validated.fetch_max(invalidations, Ordering::AcqRel);
    }

    /// Returns the revision of the local copy.
    pub(crate) fn revision(&self) -> u64 {
        self.stored().record.revision
    }

    /// Returns whether the revision of the local copy was announced to the other replicas.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Acquire) >= self.revision()
    }

    /// Records that a revision was announced to the other replicas.
    pub(crate) fn set_announced(&self, revision: u64) {
        self.announced.fetch_max(revision, Ordering::AcqRel);
    }

    /// Returns the local copy of the record.
    pub(crate) fn copy(&self) -> StoredSession {
        self.stored().clone()
    }

    /// Replaces the local copy, and passes the old and the new record to `apply`, unless the local copy is newer.
    pub(crate) fn replace(&self, stored: StoredSession, apply: impl FnOnce(&SessionRecord, &SessionRecord)) {
        let mut current = self.stored();
        if stored.record.revision >= current.record.revision {
            apply(&current.record, &stored.record);
            *current = stored;
        }
    }

    /// Sets the version of the record, which another write than a change has set.
    pub(crate) fn set_version(&self, revision: u64, version: RecordVersion) {
        let mut current = self.stored();
        if current.record.revision == revision {
            current.version = version;
        }
    }

    fn stored(&self) -> MutexGuard<'_, StoredSession> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
