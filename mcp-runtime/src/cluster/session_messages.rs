use serde::{Deserialize, Serialize};

use super::session_record::SessionChange;
use crate::{engine::InputResponse, handler::ask::ClientProgress};

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
    /// The client has responded to a request of the replica that receives this. The response is a record.
    Answered { session: String, request: u64 },
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
