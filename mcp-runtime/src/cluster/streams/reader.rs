use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::log::RUNNING_TTL;
use crate::{
    backend::{BackendError, RecordCondition, RecordVersion, respond},
    cluster::{Replica, Slot},
};

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

/// The record of the response that carries the stream of a session for messages that belong to no request.
#[derive(Debug)]
pub(super) struct Reader {
    replica: Arc<Replica>,
    key: String,
    record: ReaderRecord,
    version: Option<RecordVersion>,
}

/// A reader is known for as long as its stream is.
const TTL: Duration = RUNNING_TTL;

impl Reader {
    /// Records a response, which replaces any other.
    pub(super) async fn open(
        replica: &Arc<Replica>,
        session: &str,
        record: ReaderRecord,
    ) -> Result<Self, BackendError> {
        let mut reader = Self { replica: Arc::clone(replica), key: ReaderRecord::key(session), record, version: None };
        reader.version = reader.write(RecordCondition::Always).await?;
        Ok(reader)
    }

    /// Postpones the time at which the record expires, unless another response has replaced this one.
    pub(super) async fn renew(&mut self, position: u64) {
        let Some(version) = self.version else { return };
        self.record.position = position;
        match self.write(RecordCondition::Version(version)).await {
            Ok(version) => self.version = version,
            Err(error) => tracing::debug!(%error, "cannot renew the record of an event stream"),
        }
    }

    /// Records that the response has ended, unless another one has replaced it.
    pub(super) async fn close(mut self, position: u64) {
        self.record.is_open = false;
        self.renew(position).await;
    }

    async fn write(&self, condition: RecordCondition) -> Result<Option<RecordVersion>, BackendError> {
        respond(self.replica.backend().set(&self.key, condition, self.record.encode(), TTL)).await
    }
}
