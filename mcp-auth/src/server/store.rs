//! Sealed records.

use std::{sync::Arc, time::Duration};

use mcp_runtime::backend::{BackendError, Insertion, RecordCondition, RecordQuota, RecordVersion, Records};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{
    random,
    seal::{Purpose, Sealer},
};
use crate::Error;

/// The beginning of every key. The number changes with the form of the values, so that two releases can run at the same
/// time.
const PREFIX: &str = "authorization-server/1";

/// The number of attempts to change a record while other requests change it, too.
const ATTEMPTS: usize = 16;

/// The longest pause between these attempts.
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// The time after which a lock expires if its process has stopped.
const LOCK_LIFETIME: Duration = Duration::from_secs(5);

/// The time between two renewals of a lock.
pub(super) const LOCK_RENEWAL: Duration = Duration::from_secs(2);

/// The longest wait for a lock: longer than two requests to the provider take, and than a lock remains whose process has
/// stopped.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(20);

/// The longest pause between two attempts to get a lock.
const MAX_LOCK_PAUSE: Duration = Duration::from_millis(500);

/// The maximum number of events within a time window, for each account and in total.
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
    prefix: Arc<str>,
}

impl Store {
    /// Creates a store for one authorization server of those that share the records.
    pub(super) fn new(records: Arc<dyn Records>, sealer: Sealer, server: &str) -> Self {
        let prefix = format!("{PREFIX}/{}", &random::hash(server)[..22]);
        Self { records, sealer, prefix: prefix.into() }
    }

    fn key(&self, kind: &str, id: &str) -> String {
        format!("{}/{kind}/{id}", self.prefix)
    }

    pub(super) fn records(&self) -> &dyn Records {
        &*self.records
    }

    /// # Errors
    ///
    /// Returns an error if the store fails, or if the value was sealed with an unknown secret.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<(T, RecordVersion)>, BackendError> {
        self.get_at(&self.key(kind, id)).await
    }

    async fn get_at<T: DeserializeOwned>(&self, key: &str) -> Result<Option<(T, RecordVersion)>, BackendError> {
        let Some(record) = self.records.get(key).await? else { return Ok(None) };
        let value = self.sealer.open(Purpose::Record(key), &record.value);
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
        let key = self.key(kind, id);
        let sealed = self.sealer.seal(Purpose::Record(&key), value).map_err(unavailable)?;
        Ok(self.records.set(&key, condition, sealed, ttl).await?.is_some())
    }

    /// Changes a record. `change` receives the default value if the record does not exist, and is called again if the
    /// record was changed meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`get`](Self::get), and an error if the record keeps changing.
    pub(super) async fn update<T: Default + Serialize + DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
        ttl: Duration,
        mut change: impl FnMut(&mut T),
    ) -> Result<(), BackendError> {
        for _ in 0..ATTEMPTS {
            let (mut value, condition) = match self.get::<T>(kind, id).await? {
                Some((value, version)) => (value, RecordCondition::Version(version)),
                None => (T::default(), RecordCondition::Absent),
            };
            change(&mut value);
            if self.set(kind, id, condition, &value, ttl).await? {
                return Ok(());
            }
            random::pause(MAX_PAUSE).await;
        }
        Err(BackendError::Unavailable(format!("`{}` keeps changing", self.key(kind, id))))
    }

    /// Counts an event of an account, as an empty record that expires. Returns `false` if there are too many within the
    /// window.
    pub(super) async fn count(&self, kind: &str, account: &str, limits: Limits) -> Result<bool, BackendError> {
        let inserted = self.insert(kind, &random::token().map_err(unavailable)?, account, limits).await?;
        Ok(!matches!(inserted, Insertion::Full { .. }))
    }

    /// Adds a name to a kind, as an empty record that expires.
    pub(super) async fn insert(
        &self,
        kind: &str,
        name: &str,
        account: &str,
        limits: Limits,
    ) -> Result<Insertion, BackendError> {
        self.insert_record(kind, name, Vec::new(), account, limits).await
    }

    /// Adds a value to a kind, which expires.
    pub(super) async fn insert_value(
        &self,
        kind: &str,
        name: &str,
        value: &impl Serialize,
        account: &str,
        limits: Limits,
    ) -> Result<Insertion, BackendError> {
        let key = self.member(kind, name);
        let sealed = self.sealer.seal(Purpose::Record(&key), value).map_err(unavailable)?;
        self.insert_record(kind, name, sealed, account, limits).await
    }

    async fn insert_record(
        &self,
        kind: &str,
        name: &str,
        value: Vec<u8>,
        account: &str,
        limits: Limits,
    ) -> Result<Insertion, BackendError> {
        let Limits { per_account, total, window } = limits;
        let quota = RecordQuota { account, per_account, total };
        self.records.insert(&format!("{}/{kind}", self.prefix), name, value, window, quota).await
    }

    /// Returns the key of a member of a kind.
    fn member(&self, kind: &str, name: &str) -> String {
        format!("{}/{kind}:{name}", self.prefix)
    }

    /// Removes a value that was added to a kind, if it is accepted. Of several requests that do so, one gets it.
    pub(super) async fn take<T: DeserializeOwned>(
        &self,
        kind: &str,
        name: &str,
        accepts: impl FnOnce(&T) -> bool,
    ) -> Result<Option<T>, BackendError> {
        let key = self.member(kind, name);
        let found = self.get_at::<T>(&key).await?.filter(|(value, _)| accepts(value));
        let Some((value, version)) = found else { return Ok(None) };
        let is_taken = self.records.delete(&key, RecordCondition::Version(version)).await?;
        Ok(is_taken.then_some(value))
    }

    /// Returns the names that were added to a kind.
    pub(super) async fn names(&self, kind: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let records = self.records.list(&format!("{}/{kind}", self.prefix), None, limit).await?;
        Ok(records.into_iter().map(|(name, _)| name).collect())
    }

    /// Waits until no other request, at whatever process, has a lock with this name. A process that does not renew it loses
    /// it after [`LOCK_LIFETIME`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails, or if the lock is not released within [`MAX_LOCK_WAIT`].
    pub(super) async fn lock(&self, name: &str) -> Result<Lock, BackendError> {
        let key = self.key("lock", name);
        let (deadline, mut longest) = (Instant::now() + MAX_LOCK_WAIT, MAX_PAUSE);
        while Instant::now() < deadline {
            if let Some(version) = self.records.set(&key, RecordCondition::Absent, Vec::new(), LOCK_LIFETIME).await? {
                return Ok(Lock { records: Arc::clone(&self.records), key, version });
            }
            random::pause(longest).await;
            longest = (longest * 2).min(MAX_LOCK_PAUSE);
        }
        Err(BackendError::Unavailable(format!("`{key}` remains locked")))
    }

    /// Returns whether a record was deleted.
    pub(super) async fn delete(&self, kind: &str, id: &str) -> Result<bool, BackendError> {
        self.records.delete(&self.key(kind, id), RecordCondition::Always).await
    }
}

/// A lock that this process has.
pub(super) struct Lock {
    records: Arc<dyn Records>,
    key: String,
    version: RecordVersion,
}

impl Lock {
    /// Postpones the expiry.
    pub(super) async fn renew(&mut self) {
        match self.records.set(&self.key, RecordCondition::Version(self.version), Vec::new(), LOCK_LIFETIME).await {
            Ok(Some(version)) => self.version = version,
            Ok(None) => tracing::debug!("a lock has expired before its work was finished"),
            Err(error) => tracing::debug!(%error, "a lock cannot be renewed"),
        }
    }

    pub(super) async fn release(self) {
        if let Err(error) = self.records.delete(&self.key, RecordCondition::Version(self.version)).await {
            tracing::debug!(%error, "a lock remains until it expires");
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn unavailable(error: Error) -> BackendError {
    BackendError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::tests::authorization_server::records::TestRecords;

    #[tokio::test(start_paused = true)]
    async fn changes_at_the_same_moment_are_all_made() {
        let store = Store::new(Arc::<TestRecords>::default(), Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        let mut changes = JoinSet::new();
        for number in 0..30 {
            let store = store.clone();
            changes.spawn(async move {
                let hour = Duration::from_secs(60 * 60);
                store.update("user", "ada", hour, |numbers: &mut Vec<usize>| numbers.push(number)).await
            });
        }
        for changed in changes.join_all().await {
            assert_eq!(changed, Ok(()));
        }
        let (mut numbers, _) = store.get::<Vec<usize>>("user", "ada").await.unwrap().unwrap();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_whose_process_has_stopped_expires_before_the_requests_that_wait_for_it_give_up() {
        let store = Store::new(Arc::<TestRecords>::default(), Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        drop(store.lock("ada").await.unwrap());
        let mut requests = JoinSet::new();
        for _ in 0..8 {
            let store = store.clone();
            requests.spawn(async move {
                store.lock("ada").await?.release().await;
                Ok(())
            });
        }
        for result in requests.join_all().await {
            assert_eq!(result, Ok::<_, BackendError>(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_for_a_lock_ask_less_and_less_often_and_get_it_soon() {
        const LOCKS: usize = 16;
        let records = Arc::<TestRecords>::default();
        let store = Store::new(Arc::clone(&records) as _, Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        let (mut locks, mut waiting) = (Vec::new(), JoinSet::new());
        for name in (0..LOCKS).map(|index| index.to_string()) {
            locks.push(store.lock(&name).await.unwrap());
            let store = store.clone();
            waiting.spawn(async move { store.lock(&name).await.map(|_| Instant::now()) });
        }
        for _ in 0..5 {
            tokio::time::sleep(LOCK_RENEWAL).await;
            for lock in &mut locks {
                lock.renew().await;
            }
        }
        assert!(records.operations() < LOCKS * 100, "{} operations", records.operations());
        for lock in locks {
            lock.release().await;
        }
        let released = Instant::now();
        for locked in waiting.join_all().await {
            assert!(locked.unwrap() - released <= MAX_LOCK_PAUSE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_renewed_does_not_expire() {
        let store = Store::new(Arc::<TestRecords>::default(), Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        let mut lock = store.lock("ada").await.unwrap();
        let other = store.clone();
        let other = tokio::spawn(async move { other.lock("ada").await.map(drop) });
        for _ in 0..6 {
            tokio::time::sleep(LOCK_RENEWAL).await;
            lock.renew().await;
            assert!(!other.is_finished());
        }
        lock.release().await;
        assert_eq!(other.await.unwrap(), Ok(()));
    }

    /// Otherwise, a third request could proceed at the same time as that of the other process.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_has_expired_releases_none_of_another_process() {
        let store = Store::new(Arc::<TestRecords>::default(), Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        let expired = store.lock("ada").await.unwrap();
        tokio::time::sleep(LOCK_LIFETIME).await;
        let _other = store.lock("ada").await.unwrap();
        expired.release().await;
        assert!(store.records().get(&store.key("lock", "ada")).await.unwrap().is_some());
    }

    /// An attacker with access to the store cannot give a user the grant of another one.
    #[tokio::test]
    async fn a_record_cannot_be_moved_to_another_key() {
        let records = Arc::<TestRecords>::default();
        let store = Store::new(Arc::clone(&records) as _, Sealer::new(&[vec![7; 32]], "").unwrap(), "");
        let hour = Duration::from_secs(60 * 60);
        assert!(store.set("grant", "ada", RecordCondition::Absent, &"of ada", hour).await.unwrap());
        let sealed = records.get(&store.key("grant", "ada")).await.unwrap().unwrap().value.to_vec();
        for (kind, id, opens) in [("grant", "ada", true), ("grant", "eve", false), ("code", "ada", false)] {
            records.set(&store.key(kind, id), RecordCondition::Always, sealed.clone(), hour).await.unwrap();
            assert_eq!(store.get::<String>(kind, id).await.is_ok(), opens, "{kind} {id}");
        }
    }
}
