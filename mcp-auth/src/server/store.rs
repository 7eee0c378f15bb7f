//! Sealed records.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{BackendError, Insertion, RecordCondition, RecordQuota, RecordVersion, Records};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    random,
    seal::{Purpose, Sealer},
};

/// The beginning of every key. The number changes with the form of the values, so that two releases can run at the same
/// time.
const PREFIX: &str = "authorization-server/1";

/// How many events may happen within a time, of each account and of all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) per_account: usize,
    pub(super) total: usize,
    pub(super) window: Duration,
}

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

    /// Counts an event of an account, as an empty record that expires. Returns `false` if there are too many within the
    /// window.
    pub(super) async fn count(&self, kind: &str, account: &str, limits: Limits) -> Result<bool, BackendError> {
        let Limits { per_account, total, window } = limits;
        let name = random::token().map_err(|error| BackendError::Unavailable(error.to_string()))?;
        let quota = RecordQuota { account, per_account, total, replaceable: None };
        let inserted = self.records.insert(&format!("{PREFIX}/{kind}"), &name, Vec::new(), window, quota).await?;
        Ok(!matches!(inserted, Insertion::Full { .. }))
    }

    /// Returns whether a record was deleted.
    pub(super) async fn delete(&self, kind: &str, id: &str) -> Result<bool, BackendError> {
        self.records.delete(&key(kind, id), RecordCondition::Always).await
    }
}

fn key(kind: &str, id: &str) -> String {
    format!("{PREFIX}/{kind}/{id}")
}
