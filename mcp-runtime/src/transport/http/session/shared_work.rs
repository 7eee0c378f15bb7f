//! What a replica has yet to do for its shared sessions.

use super::due::DueWork;

/// The work that is due, by kind. No kind waits for another one.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    /// The answers to questions of this replica, by session and request, that others have stored.
    pub(super) answers: DueWork<(String, u64)>,
    /// The sessions to read again.
    pub(super) refreshes: DueWork<String>,
    /// The sessions, with a revision, of whose changes or end the others may not have heard.
    pub(super) announcements: DueWork<(String, u64)>,
}
