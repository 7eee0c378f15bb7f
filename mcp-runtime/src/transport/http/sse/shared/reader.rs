use std::{sync::Arc, time::Duration};

use super::log::RUNNING_TTL;
pub(super) use crate::engine::ReaderRecord;
use crate::{
    backend::{BackendError, RecordCondition, RecordVersion, respond},
    engine::Replica,
};

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
