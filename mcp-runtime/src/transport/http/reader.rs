//! Signs that the client of a connection reads.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::engine::Session;

/// The session whose output a connection carries. The connection reports to it that its client reads, so that a client
/// that is busy with a long response does not appear to be dead.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Weak<Session>>);

impl Reader {
    /// Sets the session, or removes it with `None`.
    pub(super) fn set_session(&self, session: Option<&Arc<Session>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = session.map_or_else(Weak::new, Arc::downgrade);
    }

    /// Records that the client has made room for output that was waiting.
    pub(super) fn record_read(&self) {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(session) = session {
            session.record_sign_of_life();
        }
    }
}
