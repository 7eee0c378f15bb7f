//! Sealed records.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{BackendError, RecordCondition, RecordVersion, Records};
use serde::{Serialize, de::DeserializeOwned};

use super::seal::{Purpose, Sealer};

/// The beginning of every key. The number changes with the form of the values, so that two releases can run at the same
/// time.
const PREFIX: &str = "authorization-server/1";

/// The records of the server. Their values are sealed, so that an attacker with access to the store can neither read nor
/// forge tokens.
#[derive(Clone)]
pub(super) struct Store {
    records: Arc<dyn Records>,
    sealer: Sealer,
}

impl Store {
    pub(super) fn new(records: Arc<dyn Records>, sealer: Sealer) -> Self {
        Self { records, sealer }
    }

    /// # Errors
    ///
    /// Returns an error if the store fails, or if the value was sealed with an unknown secret.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<(T, RecordVersion)>, BackendError> {
        let key = key(kind, id);
        let Some(record) = self.records.get(&key).await? else { return Ok(None) };
        let value = self.sealer.open(Purpose::Record(&key), &record.value);
        let unreadable = || BackendError::Unavailable(format!("`{key}` was written with another secret"));
        Ok(Some((value.ok_or_else(unreadable)?, record.version)))
    }

    /// Returns whether the condition held.
    pub(super) async fn set(
        &self,
        kind: &str,
        id: &str,
        condition: RecordCondition,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<bool, BackendError> {
        let key = key(kind, id);
        let sealed = self.sealer.seal(Purpose::Record(&key), value);
        let sealed = sealed.map_err(|error| BackendError::Unavailable(error.to_string()))?;
        Ok(self.records.set(&key, condition, sealed, ttl).await?.is_some())
    }

    /// Returns whether a record was deleted.
    pub(super) async fn delete(&self, kind: &str, id: &str) -> Result<bool, BackendError> {
        self.records.delete(&key(kind, id), RecordCondition::Always).await
    }
}

fn key(kind: &str, id: &str) -> String {
    format!("{PREFIX}/{kind}/{id}")
}
