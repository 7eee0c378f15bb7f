use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::record::SessionRecord;
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
    /// Whether the record must be read again before the session is used.
    is_stale: AtomicBool,
    /// The newest revision that was announced to the other replicas, as far as this replica knows.
    announced: AtomicU64,
}

impl SharedSession {
    pub(in crate::engine) fn new(id: Arc<str>, stored: StoredSession) -> Self {
        let announced = AtomicU64::new(stored.record.revision);
        Self { id, stored: Mutex::new(stored), is_stale: AtomicBool::new(false), announced }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }

    pub(crate) fn set_stale(&self, is_stale: bool) {
        self.is_stale.store(is_stale, Ordering::Release);
    }

    /// Returns the revision of the local copy.
    pub(crate) fn revision(&self) -> u64 {
        self.stored().record.revision
    }

    /// Returns whether the revision of the local copy was announced to the other replicas.
    pub(in crate::engine) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Acquire) >= self.revision()
    }

    /// Records that a revision was announced to the other replicas.
    pub(in crate::engine) fn set_announced(&self, revision: u64) {
        self.announced.fetch_max(revision, Ordering::AcqRel);
    }

    /// Returns the local copy of the record.
    pub(in crate::engine) fn copy(&self) -> StoredSession {
        self.stored().clone()
    }

    /// Replaces the local copy, and passes the old and the new record to `apply`, unless the local copy is newer.
    pub(in crate::engine) fn replace(&self, stored: StoredSession, apply: impl FnOnce(&SessionRecord, &SessionRecord)) {
        let mut current = self.stored();
        if stored.record.revision >= current.record.revision {
            apply(&current.record, &stored.record);
            *current = stored;
        }
    }

    /// Sets the version of the record, which another write than a change has set.
    pub(in crate::engine) fn set_version(&self, revision: u64, version: RecordVersion) {
        let mut current = self.stored();
        if current.record.revision == revision {
            current.version = version;
        }
    }

    fn stored(&self) -> MutexGuard<'_, StoredSession> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
