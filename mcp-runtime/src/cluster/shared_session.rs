use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use super::session_record::SessionRecord;
use crate::backend::RecordVersion;

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
