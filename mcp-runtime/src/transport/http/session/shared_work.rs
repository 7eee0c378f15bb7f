//! The pending work of a replica for its shared sessions.

use super::due::DueWork;

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    /// The answers to questions of this replica, by session and request, that others have stored.
    pub(super) answers: DueWork<(String, u64)>,
    /// The cancellations of calls of this replica, by session and request as JSON, that others have stored.
    pub(super) cancellations: DueWork<(String, String)>,
    /// The sessions to read again.
    pub(super) refreshes: DueWork<String>,
    /// The sessions whose changes or end may not have been announced to the other replicas, each with a revision.
    pub(super) announcements: DueWork<(String, u64)>,
}
