use serde::{Deserialize, Serialize};

use super::{replica::Replica, slot::Slot};
use crate::backend::{BackendError, respond};

/// Where a client reads the messages of its session that belong to no request, as the backend keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderRecord {
    /// The replica that has opened the stream.
    pub(crate) slot: Slot,
    /// The position of the last message that the client was sent.
    pub(crate) position: u64,
    /// Whether the stream was open when its replica was last heard of.
    pub(crate) is_open: bool,
}

impl ReaderRecord {
    /// Returns the key of the record of a session.
    pub(crate) fn key(session: &str) -> String {
        format!("mcp/1/reader/{session}")
    }

    /// Reads the record of a session.
    pub(crate) async fn load(replica: &Replica, session: &str) -> Result<Option<Self>, BackendError> {
        let record = respond(replica.backend().get(&Self::key(session))).await?;
        Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }

    /// Returns whether a replica that is alive has opened the stream of a session.
    pub(crate) async fn is_read(replica: &Replica, session: &str) -> Result<bool, BackendError> {
        match Self::load(replica, session).await? {
            Some(record) if record.is_open => replica.is_alive(record.slot).await,
            _ => Ok(false),
        }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(&self).unwrap_or_default()
    }
}
