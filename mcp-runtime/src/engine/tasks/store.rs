//! Tasks as records of the backend, and the memory that the tasks of a process may use.
//!
//! A task is one record, so that every change of it is atomic, and is counted for its peer. Its result is a record of its
//! own if it is long.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    LOG_TARGET,
    records::{TaskChanges, TaskRecords, TaskWaiter},
    task::{StoredOutcome, TASKS, Task, TaskError, TaskKey, TaskState, hash, too_many_in_total, too_many_of_client},
};
use crate::{
    backend::{Backend, BackendError, Insertion, RecordCondition, RecordQuota, Timestamp},
    counters::Counter,
    engine::{
        limits::TaskLimits,
        replicas::{ReplicaHandler, Replicas, Slot},
    },
    error::Fault,
    random::log_id,
    stdx::Mutex,
};

/// The kind of the messages between processes that announce a change of a task.
const CHANGED: &str = "task";
/// The maximum length of a result that is stored in the record of its task.
const MAX_INLINE: usize = 2048;
/// The maximum number of ended tasks that are kept in memory, with results of at most [`MAX_INLINE`] bytes.
const MAX_ENDED: usize = 256;
/// The number of the oldest tasks of a client among which the next one to expire is found.
const OLDEST: usize = 128;
/// A process that waits for a task looks this often, within the time of a lease, whether the task was lost or a message
/// was.
const CHECKS_PER_LEASE: u32 = 5;

/// The tasks of a server, or of all servers that share a backend.
#[derive(Debug)]
pub(crate) struct TaskStore {
    /// The name of the server, whose owners are not the owners of other servers with the same backend.
    server: Box<str>,
    records: TaskRecords,
    /// The long results that this process has stored.
    pub(super) results: StoredResults,
    /// This process among the processes that share the backend. `None` if no other process uses it.
    replica: Option<Arc<dyn Replicas>>,
    changes: Arc<TaskChanges>,
    /// The tasks that this process has ended last, if others share its backend. They no longer change, and clients ask for
    /// them soon.
    ended: Mutex<VecDeque<Arc<Task>>>,
    /// The ids under which this process has started tasks: one more after each outage in which it lost its slot.
    own_runners: Mutex<HashSet<u64>>,
    /// The last id of a request. Used only if the backend is not shared.
    last_request: AtomicU64,
}

/// The outcome of an update.
pub(super) enum Updated {
    /// The update was applied, with this task as the result.
    Applied(Task),
    /// The task had already finished, and is unchanged.
    Finished(Task),
    /// The task has expired.
    Expired,
}

impl Updated {
    /// Returns the task, unless it has expired.
    pub(super) fn task(self) -> Option<Task> {
        match self {
            Self::Applied(task) | Self::Finished(task) => Some(task),
            Self::Expired => None,
        }
    }
}

impl TaskStore {
    pub(crate) fn new(backend: Arc<dyn Backend>, replica: Option<Arc<dyn Replicas>>, server: &str) -> Self {
        let changes = Arc::<TaskChanges>::default();
        if let Some(replica) = &replica {
            replica.add_handler(CHANGED, Arc::downgrade(&changes) as Weak<dyn ReplicaHandler>);
        }
        let records = TaskRecords { backend, clock: replica.as_ref().map(|replica| Arc::clone(replica.clock())) };
        let (results, ended, own_runners, last_request) = Default::default();
        Self { server: server.into(), records, results, replica, changes, ended, own_runners, last_request }
    }

    /// Returns the key of a new task of an owner.
    pub(super) async fn new_key(&self, owner: &str) -> Result<TaskKey, Fault> {
        TaskKey::random(self.owner(owner), self.records.now().await?)
    }

    /// Returns the key of a task of an owner. Returns `None` if no task has the id.
    pub(crate) fn key(&self, owner: &str, id: &str) -> Option<TaskKey> {
        TaskKey::new(self.owner(owner), id)
    }

    /// Returns the hash of an owner among the owners of all servers that share the backend.
    pub(super) fn owner(&self, owner: &str) -> String {
        match &self.replica {
            Some(_) => hash(&format!("{:?} {owner}", self.server)),
            // A longer name takes longer to hash, at each request.
            None => hash(owner),
        }
    }

    /// Adds a task that this process runs.
    ///
    /// # Errors
    ///
    /// Fails if there are too many tasks of the peer or in total, or if the backend is full or fails.
    ///
    /// # Cancel safety
    ///
    /// A task whose insertion was dropped or has failed is deleted, unless the backend fails. No process runs it, and its id
    /// was never sent.
    pub(super) async fn insert(&self, task: &mut Task, limits: TaskLimits) -> Result<(), Fault> {
        if let Some(replica) = &self.replica {
            let runner = replica.join().await?.id(0);
            task.state.runner = Some(runner);
            self.own_runners.lock().insert(runner);
        }
        let (name, ttl) = (task.key.name(), self.records.remaining(task).await?);
        let quota = RecordQuota { account: &task.state.peer, per_account: limits.per_peer, total: limits.total };
        let mut unstarted = Unstarted { records: self.records.clone(), key: Some(task.key.record()) };
        let inserted = self.records.run(|backend| backend.insert(TASKS, &name, task.state.encode(), ttl, quota)).await;
        if !matches!(inserted, Err(BackendError::Unavailable(_))) {
            unstarted.key = None;
        }
        match inserted {
            Ok(Insertion::Inserted(version)) => task.stored = version,
            Ok(Insertion::Exists) => return Err(Fault::internal("the id of a new task is taken")),
            Ok(Insertion::Full { of_account, .. }) if of_account >= limits.per_peer => {
                return Err(too_many_of_client(limits, self.next_expiry(&task.key).await?));
            }
            Ok(Insertion::Full { .. }) => return Err(too_many_in_total(limits)),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the time until the first of the oldest tasks of an owner expires.
    async fn next_expiry(&self, key: &TaskKey) -> Result<Option<Duration>, BackendError> {
        let prefix = TaskKey::prefix(&key.owner);
        let oldest = self.records.run(|backend| backend.list(TASKS, Some(&prefix), OLDEST)).await?;
        let own = oldest.iter().take_while(|(name, _)| name.starts_with(&prefix));
        let tasks = own.filter_map(|(name, record)| Task::decode(TaskKey::of_name(name)?, record).ok());
        let now = self.records.now().await?;
        Ok(tasks.map(|task| task.remaining(now)).min())
    }

    /// Returns a task, or `None` if it is unknown or has expired. A task whose process is gone has failed. The backend is not
    /// asked for a task that this process has just ended.
    pub(super) async fn load(&self, key: &TaskKey) -> Result<Option<Task>, TaskError> {
        // A task that runs can be cancelled at another process, which may have answered before this one hears of it.
        let ended = self.ended.lock().iter().find(|task| task.key == *key).cloned();
        if let Some(task) = ended.filter(|task| !task.remaining(self.records.estimated_now()).is_zero()) {
            return Ok(Some((*task).clone()));
        }
        match self.read(key).await? {
            Some(task) => self.fail_if_lost(task, &mut HashSet::new()).await,
            None => Ok(None),
        }
    }

    /// Loads a task without waiting. Returns `None` if the backend is shared, or fails.
    pub(super) fn load_now(&self, key: &TaskKey) -> Option<Option<Task>> {
        if self.replica.is_some() {
            return None;
        }
        // The backend in memory responds at once.
        match pin!(self.load(key)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(loaded) => loaded.ok(),
            Poll::Pending => None,
        }
    }

    /// Returns a task as it is stored, or `None` if it is unknown or has expired.
    pub(super) async fn read(&self, key: &TaskKey) -> Result<Option<Task>, TaskError> {
        let name = key.record();
        let Some(record) = self.records.run(|backend| backend.get(&name)).await? else { return Ok(None) };
        let task = Task::decode(key.clone(), &record)?;
        let remaining = self.records.remaining(&task).await?;
        Ok(Some(task).filter(|_| !remaining.is_zero()))
    }

    /// Lists at most `size` tasks of an owner in the order of their creation, after the task `after` if there is one,
    /// even if it no longer exists. Omits tasks that this release cannot read. If more tasks follow, also returns the
    /// task after which they do.
    pub(super) async fn page(
        &self,
        owner: &str,
        after: Option<&TaskKey>,
        size: usize,
    ) -> Result<(Vec<Task>, Option<TaskKey>), TaskError> {
        let prefix = TaskKey::prefix(&self.owner(owner));
        let after = after.map_or_else(|| prefix.clone(), TaskKey::name);
        let limit = size.saturating_add(1);
        let mut records = self.records.run(|backend| backend.list(TASKS, Some(&after), limit)).await?;
        records.retain(|(name, _)| name.starts_with(&prefix));
        let has_more = records.len() > size;
        records.truncate(size);
        let last = records.iter().rev().find_map(|(name, _)| TaskKey::of_name(name)).filter(|_| has_more);
        let (mut page, mut alive) = (Vec::new(), HashSet::new());
        for (name, record) in &records {
            match TaskKey::of_name(name).map(|key| Task::decode(key, record)) {
                Some(Ok(task)) => page.extend(self.fail_if_lost(task, &mut alive).await?),
                Some(Err(error)) => tracing::error!(%error, "a task is not listed"),
                None => {}
            }
        }
        Ok((page, last))
    }

    /// Returns a task, which fails if the process that runs it is gone. Returns `None` if the task has expired.
    ///
    /// `alive` contains replicas that need not be checked again.
    async fn fail_if_lost(&self, task: Task, alive: &mut HashSet<u64>) -> Result<Option<Task>, TaskError> {
        let Some(runner) = task.state.runner.filter(|_| !task.state.status.is_final()) else { return Ok(Some(task)) };
        // This process still runs its tasks after an outage in which it lost its slot.
        if alive.contains(&runner) || self.own_runners.lock().contains(&runner) {
            return Ok(Some(task));
        }
        let may_return = |replica: &Arc<dyn Replicas>| !replica.knows_who_is_gone();
        if self.is_alive(runner).await? || self.replica.as_ref().is_some_and(may_return) {
            alive.insert(runner);
            return Ok(Some(task));
        }
        // Another process may do the same, and the task may have ended before its process did.
        let lost = self.update(task, |state| {
            if state.runner == Some(runner) {
                state.fail_as_lost();
            }
        });
        let lost = lost.await?;
        if let Updated::Applied(task) = &lost
            && task.state.status.is_final()
        {
            Counter::FailedTasks.count();
            let (task, status) = (log_id(task.id()), task.state.status.as_str());
            tracing::info!(target: LOG_TARGET, task, status, reason = "lost", "task ended");
        }
        Ok(lost.task())
    }

    /// Updates an unfinished task. If another process changes it at the same time, applies the update again to the changed
    /// state.
    pub(super) async fn update(
        &self,
        mut task: Task,
        mut apply: impl FnMut(&mut TaskState) + Send,
    ) -> Result<Updated, TaskError> {
        loop {
            if task.state.status.is_final() {
                return Ok(Updated::Finished(task));
            }
            let mut changed = task.state.clone();
            apply(&mut changed);
            if changed == task.state {
                return Ok(Updated::Applied(task));
            }
            changed.version += 1;
            // Clients do not see which requests read or watch the task, so these changes leave the time of the last update
            // as it was.
            if changed.reader == task.state.reader && changed.is_watched == task.state.is_watched {
                changed.updated = self.records.now().await?;
            }
            if let Some(replaced) = self.replace(&task, changed).await? {
                return Ok(Updated::Applied(replaced));
            }
            match self.read(&task.key).await? {
                Some(newer) => task = newer,
                None => return Ok(Updated::Expired),
            }
        }
    }

    /// Returns whether a task has expired by the clock of the backend, as far as it is known.
    pub(super) fn has_expired(&self, task: &Task) -> bool {
        task.remaining(self.records.estimated_now()).is_zero()
    }

    /// Replaces the state of a task. Returns `None` if the task was changed or has expired since it was read.
    ///
    /// If this fails, the state may have been replaced or not.
    pub(super) async fn replace(&self, task: &Task, state: TaskState) -> Result<Option<Task>, BackendError> {
        let ttl = self.records.remaining(task).await?;
        if ttl.is_zero() {
            return Ok(None);
        }
        let (key, value, condition) = (task.key.record(), state.encode(), RecordCondition::Version(task.stored));
        let Some(stored) = self.records.run(|backend| backend.set(&key, condition, value, ttl)).await? else {
            return Ok(None);
        };
        let replaced = Task { key: task.key.clone(), stored, state };
        self.announce(&replaced).await;
        Ok(Some(replaced))
    }

    /// Announces a change to the futures that wait for it: to other processes only if the task may run in one of them,
    /// or if one of them watches it.
    async fn announce(&self, task: &Task) {
        let (id, version) = (task.id(), task.state.version);
        if self.replica.is_some() && task.state.status.is_final() {
            let mut ended = self.ended.lock();
            ended.truncate(MAX_ENDED - 1);
            ended.push_front(Arc::new(task.clone()));
        }
        self.changes.announce(id, version);
        if let Some(replica) = self.replica.as_ref().filter(|_| task.state.is_watched || !self.runs(task))
            && let Err(error) = replica.announce(CHANGED, TaskChanges::message(id, version).as_bytes()).await
        {
            tracing::debug!(%error, "cannot announce the change of a task: others will notice it late");
        }
    }

    /// Stores the JSON of the outcome of a task. Returns `None` if it is too large to be kept.
    pub(super) async fn store_outcome(&self, task: &Task, json: &str) -> Result<Option<StoredOutcome>, BackendError> {
        let bytes = json.len();
        if bytes <= MAX_INLINE {
            return Ok(Some(StoredOutcome::Inline(json.to_owned())));
        }
        let now = self.records.now().await?;
        let Some(permit) = self.results.reserve(&task.state.peer, bytes, now) else { return Ok(None) };
        let (key, ttl) = (task.key.result(), task.remaining(now));
        match self.records.run(|backend| backend.set(&key, RecordCondition::Always, json.into(), ttl)).await {
            Ok(_) => {
                self.results.keep(permit, task.expires());
                Ok(Some(StoredOutcome::Separate { bytes }))
            }
            Err(BackendError::Full) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the JSON of the outcome of a task, or `None` if it has none.
    pub(super) async fn outcome(&self, task: &Task) -> Result<Option<Arc<[u8]>>, BackendError> {
        match &task.state.outcome {
            Some(StoredOutcome::Inline(json)) => Ok(Some(json.as_bytes().into())),
            Some(StoredOutcome::Separate { .. }) => {
                let key = task.key.result();
                let record = self.records.run(|backend| backend.get(&key)).await?;
                Ok(record.map(|record| record.value))
            }
            None => Ok(None),
        }
    }

    /// Deletes a stored outcome that is not part of its task, since the task was cancelled or has expired meanwhile.
    pub(super) async fn delete_outcome(&self, key: &TaskKey) {
        let result = key.result();
        if let Err(error) = self.records.run(|backend| backend.delete(&result, RecordCondition::Always)).await {
            tracing::debug!(%error, "cannot delete the result of a task: it will expire");
        }
    }

    /// Begins to wait for changes of a task that this process has just inserted.
    pub(super) fn watch_own(&self, key: &TaskKey) -> TaskWaiter {
        let interval = self.replica.as_ref().map_or(Duration::MAX, |replica| replica.lease() / CHECKS_PER_LEASE);
        self.changes.watch(key.id(), interval, self.records.clone())
    }

    /// Begins to wait for changes of a task.
    pub(super) async fn watch(&self, key: &TaskKey) -> TaskWaiter {
        let waiter = self.watch_own(key);
        if let Some(replica) = &self.replica
            && let Err(error) = replica.join().await
        {
            tracing::debug!(%error, "changes of tasks by other processes will be noticed late");
        }
        waiter
    }

    /// Records that this process is going to wait for changes of a task, so that they are announced to it. Returns the latest
    /// state of the task, or `None` if it has expired.
    pub(super) async fn begin_watching(&self, task: Task) -> Result<Option<Task>, TaskError> {
        let must_watch = self.must_watch(&task);
        Ok(self.update(task, |state| state.is_watched |= must_watch).await?.task())
    }

    /// Returns whether this process has to record that it waits for changes of a task: another process runs it.
    pub(super) fn must_watch(&self, task: &Task) -> bool {
        self.replica.is_some() && !self.runs(task)
    }

    /// Returns whether this process runs a task.
    fn runs(&self, task: &Task) -> bool {
        task.state.runner == self.runner()
    }

    /// Returns the id of this process as a runner. `None` if no other process uses the backend, or if it has none now.
    pub(super) fn runner(&self) -> Option<u64> {
        self.replica.as_ref()?.slot().map(|slot| slot.id(0))
    }

    /// Returns an id for a request that waits for a task. No other request, in any process, has had the same id.
    pub(super) async fn new_request_id(&self) -> Result<u64, BackendError> {
        let Some(replica) = &self.replica else { return Ok(self.last_request.fetch_add(1, Ordering::Relaxed)) };
        replica.join().await?;
        let no_slot = || BackendError::Unavailable("the replica has just lost its slot".to_owned());
        replica.new_id().ok_or_else(no_slot)
    }

    /// Returns whether the process of a runner or a request still has its lease.
    pub(super) async fn is_alive(&self, id: u64) -> Result<bool, BackendError> {
        match (&self.replica, Slot::of_id(id)) {
            (Some(replica), Some(slot)) => replica.is_alive(slot).await,
            (Some(_), None) => Ok(false),
            (None, _) => Ok(true),
        }
    }
}

/// A task that is being inserted, and that is deleted when this is dropped with its key.
struct Unstarted {
    records: TaskRecords,
    key: Option<String>,
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let (Some(key), Ok(runtime)) = (self.key.take(), Handle::try_current()) {
            let records = self.records.clone();
            // If this fails, the record expires.
            runtime
                .spawn(async move { drop(records.run(|backend| backend.delete(&key, RecordCondition::Always)).await) });
        }
    }
}

/// The maximum number of bytes of all tasks.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// The maximum number of bytes of the tasks of one peer.
const MAX_BYTES_PER_PEER: usize = 32 << 20;

/// Bytes that tasks use: the bytes of the arguments that functions hold, or the bytes of long results. Beyond the
/// maximum, calls are not accepted as tasks, or tasks fail.
#[derive(Debug, Default)]
pub(super) struct ByteQuota(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    total: usize,
    /// Contains only peers that use any. The limit on tasks bounds their number.
    by_peer: HashMap<Arc<str>, usize>,
}

/// A part of the memory, which is released when the permit is dropped.
#[derive(Debug)]
pub(super) struct BytePermit {
    quota: Arc<ByteQuota>,
    peer: Arc<str>,
    bytes: usize,
}

impl ByteQuota {
    /// Reserves memory for a task. Returns `None` if its peer, or all peers together, use too much. Peers
    /// without a name share only the total.
    pub(super) fn reserve(self: &Arc<Self>, peer: &str, bytes: usize) -> Option<BytePermit> {
        let mut used = self.0.lock();
        let own = used.by_peer.get(peer).map_or(0, |own| *own);
        let max_own = if peer.is_empty() { MAX_BYTES } else { MAX_BYTES_PER_PEER };
        if used.total + bytes > MAX_BYTES || own + bytes > max_own {
            return None;
        }
        let peer: Arc<str> = peer.into();
        used.total += bytes;
        *used.by_peer.entry(Arc::clone(&peer)).or_default() += bytes;
        Some(BytePermit { quota: Arc::clone(self), peer, bytes })
    }

    /// Returns the bytes that are in use.
    pub(super) fn total(&self) -> usize {
        self.0.lock().total
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        let mut used = self.quota.0.lock();
        used.total -= self.bytes;
        if let Some(own) = used.by_peer.get_mut(&self.peer) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_peer.remove(&self.peer);
            }
        }
    }
}

/// The long results that this process has stored, which count until they expire.
#[derive(Debug, Default)]
pub(super) struct StoredResults {
    pub(super) quota: Arc<ByteQuota>,
    by_expiry: Mutex<BTreeMap<Timestamp, Vec<BytePermit>>>,
}

impl StoredResults {
    /// Reserves memory for a result, like [`ByteQuota::reserve`]. The permit is passed to [`keep`](Self::keep) once the
    /// result is stored.
    pub(super) fn reserve(&self, peer: &str, bytes: usize, now: Timestamp) -> Option<BytePermit> {
        let expired = {
            let mut by_expiry = self.by_expiry.lock();
            let kept = by_expiry.split_off(&now);
            std::mem::replace(&mut *by_expiry, kept)
        };
        drop(expired);
        self.quota.reserve(peer, bytes)
    }

    /// Counts a result until it expires.
    pub(super) fn keep(&self, permit: BytePermit, expires: Timestamp) {
        self.by_expiry.lock().entry(expires).or_default().push(permit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_bytes_of_a_peer_and_of_all_peers_are_bounded() {
        let quota = Arc::new(ByteQuota::default());
        let mut permits = Vec::new();
        for (peer, mib, is_reserved) in [
            ("ada", 31, true),
            ("ada", 2, false),
            ("ada", 1, true),
            ("ada", 1, false),
            // Without a name, peers share what is left.
            ("", 200, true),
            ("eve", 25, false),
            ("eve", 24, true),
            ("bob", 1, false),
        ] {
            let permit = quota.reserve(peer, mib * MIB);
            assert_eq!(permit.is_some(), is_reserved, "{mib} MiB of {peer:?}");
            permits.extend(permit);
        }
        permits.remove(0);
        assert!(quota.reserve("ada", 32 * MIB).is_none());
        assert!(quota.reserve("ada", 31 * MIB).is_some());
        permits.clear();
        let used = quota.0.lock();
        assert_eq!((used.total, used.by_peer.len()), (0, 0));
    }

    #[test]
    fn results_count_until_they_expire() {
        let results = StoredResults::default();
        let at = Timestamp::from_unix_millis;
        for (now, expires, mib, is_kept) in
            [(0, 10, 15, true), (0, 10, 5, true), (0, 20, 12, true), (9, 30, 1, false), (11, 30, 20, true)]
        {
            let permit = results.reserve("ada", mib * MIB, at(now));
            assert_eq!(permit.is_some(), is_kept, "at {now}");
            permit.into_iter().for_each(|permit| results.keep(permit, at(expires)));
        }
    }
}
