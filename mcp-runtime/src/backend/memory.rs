//! The default task store.

use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{
    record::{InputResponse, TaskCursor, TaskInput, TaskOutcome, TaskRecord},
    store::{StoreFuture, TaskLimits, TaskStore},
    time::Timestamp,
};

/// The maximum number of bytes of all results, errors and questions. Finished tasks beyond it are evicted, beginning
/// with the owner who keeps the most.
const MAX_BYTES: usize = 256 << 20;

/// A [`TaskStore`] in the memory of one process.
///
/// It keeps at most 256 MiB. Beyond that, it evicts finished tasks of the owner who keeps the most, the oldest ones first.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{MemoryTasks, TaskLimits, TaskRecord, TaskStore as _, Timestamp};
///
/// let store = MemoryTasks::default();
/// let (ttl, poll) = (Duration::from_secs(60), Duration::from_secs(1));
/// let task = TaskRecord::new("id", "owner", Timestamp::now(), ttl, poll);
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// store.insert(task, TaskLimits::default()).await.unwrap();
/// assert!(store.load("id").await.unwrap().is_some());
/// # });
/// ```
#[derive(Debug, Default)]
pub struct MemoryTasks(Mutex<Store>);

#[derive(Debug)]
struct Store {
    tasks: HashMap<String, Entry>,
    by_owner: HashMap<String, OwnedTasks>,
    /// The size of all tasks in bytes.
    bytes: usize,
    max_bytes: usize,
    /// All tasks in the order in which they expire.
    by_expiry: BTreeSet<(Timestamp, String)>,
}

/// The tasks of one owner.
#[derive(Debug, Default)]
struct OwnedTasks {
    /// The tasks in the order of their creation.
    cursors: BTreeSet<TaskCursor>,
    bytes: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            tasks: HashMap::new(),
            by_owner: HashMap::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
            by_expiry: BTreeSet::new(),
        }
    }
}

#[derive(Debug)]
struct Entry {
    task: TaskRecord,
    changed: Arc<Notify>,
}

impl MemoryTasks {
    /// Locks the store and removes expired tasks.
    fn lock(&self) -> MutexGuard<'_, Store> {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        store.remove_expired(Timestamp::now());
        store
    }
}

impl Store {
    fn remove_expired(&mut self, now: Timestamp) {
        while self.by_expiry.first().is_some_and(|(expires, _)| *expires <= now)
            && let Some((_, id)) = self.by_expiry.pop_first()
        {
            self.remove(&id);
        }
    }

    fn insert(&mut self, task: TaskRecord, limits: TaskLimits) -> bool {
        if self.tasks.contains_key(&task.id) || !self.make_room(&task.owner, limits) {
            return false;
        }
        let owned = self.by_owner.entry(task.owner.clone()).or_default();
        owned.cursors.insert(task.cursor());
        let bytes = size(&task);
        owned.bytes += bytes;
        self.bytes += bytes;
        self.by_expiry.insert((task.expires(), task.id.clone()));
        self.tasks.insert(task.id.clone(), Entry { task, changed: Arc::default() });
        true
    }

    /// Evicts finished tasks until an owner may add another one. Returns `false` if too many are unfinished.
    fn make_room(&mut self, owner: &str, limits: TaskLimits) -> bool {
        while self.by_owner.get(owner).map_or(0, |owned| owned.cursors.len()) >= limits.per_owner {
            let Some(id) = self.first_finished_of(owner) else { return false };
            self.remove(&id);
        }
        while self.tasks.len() >= limits.total {
            let id = self.first_finished_of(owner).or_else(|| first_finished(self.tasks.values()));
            let Some(id) = id else { return false };
            self.remove(&id);
        }
        true
    }

    fn first_finished_of(&self, owner: &str) -> Option<String> {
        let owned = self.by_owner.get(owner).into_iter().flat_map(|owned| &owned.cursors);
        first_finished(owned.filter_map(|cursor| self.tasks.get(&cursor.id)))
    }

    fn replace(&mut self, task: TaskRecord) -> bool {
        let Some(entry) = self.tasks.get_mut(&task.id) else { return false };
        if entry.task.version.checked_add(1) != Some(task.version) {
            return false;
        }
        if entry.task.expires() != task.expires() {
            self.by_expiry.remove(&(entry.task.expires(), task.id.clone()));
            self.by_expiry.insert((task.expires(), task.id.clone()));
        }
        let (before, after) = (size(&entry.task), size(&task));
        if let Some(owned) = self.by_owner.get_mut(&task.owner) {
            owned.bytes = owned.bytes + after - before;
        }
        self.bytes = self.bytes + after - before;
        entry.task = task;
        entry.changed.notify_waiters();
        self.evict_excess();
        true
    }

    /// Evicts finished tasks until the rest fits, beginning with the owner who keeps the most.
    fn evict_excess(&mut self) {
        while self.bytes > self.max_bytes {
            let finished = self.tasks.values().filter(|entry| entry.task.status.is_final());
            let kept = |entry: &&Entry| self.by_owner.get(&entry.task.owner).map_or(0, |owned| owned.bytes);
            let Some(owner) = finished.max_by_key(kept).map(|entry| entry.task.owner.clone()) else { return };
            let Some(id) = self.first_finished_of(&owner) else { return };
            tracing::warn!("too many bytes of task results: evicting a finished task");
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        let Some(Entry { task, changed }) = self.tasks.remove(id) else { return };
        if let Some(owned) = self.by_owner.get_mut(&task.owner) {
            owned.cursors.remove(&task.cursor());
            owned.bytes -= size(&task);
            if owned.cursors.is_empty() {
                self.by_owner.remove(&task.owner);
            }
        }
        self.bytes -= size(&task);
        self.by_expiry.remove(&(task.expires(), task.id));
        changed.notify_waiters();
    }

    fn page(&self, owner: &str, after: Option<&TaskCursor>, limit: usize) -> Vec<TaskRecord> {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let owned = self.by_owner.get(owner).into_iter().flat_map(|owned| owned.cursors.range::<TaskCursor, _>(range));
        owned.filter_map(|cursor| self.tasks.get(&cursor.id)).take(limit).map(|entry| entry.task.clone()).collect()
    }
}

/// Returns the size of the parts of a task that may be long.
fn size(task: &TaskRecord) -> usize {
    let outcome = match &task.outcome {
        Some(TaskOutcome::Result(json) | TaskOutcome::Error(json)) => json.len(),
        None => 0,
    };
    let response = |input: &TaskInput| match &input.response {
        Some(InputResponse::Result(text) | InputResponse::Error(text)) => text.len(),
        None => 0,
    };
    outcome + task.inputs.iter().map(|input| input.params.len() + response(input)).sum::<usize>()
}

/// Returns the id of the task that finished first.
fn first_finished<'a>(tasks: impl Iterator<Item = &'a Entry>) -> Option<String> {
    let finished = tasks.map(|entry| &entry.task).filter(|task| task.status.is_final());
    finished.min_by_key(|task| (task.updated, &task.id)).map(|task| task.id.clone())
}

impl TaskStore for MemoryTasks {
    fn insert(&self, task: TaskRecord, limits: TaskLimits) -> StoreFuture<'_, bool> {
        Box::pin(ready(Ok(self.lock().insert(task, limits))))
    }

    fn load<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        Box::pin(ready(Ok(self.lock().tasks.get(id).map(|entry| entry.task.clone()))))
    }

    fn replace(&self, task: TaskRecord) -> StoreFuture<'_, bool> {
        Box::pin(ready(Ok(self.lock().replace(task))))
    }

    fn page<'a>(
        &'a self,
        owner: &'a str,
        after: Option<&'a TaskCursor>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<TaskRecord>> {
        Box::pin(ready(Ok(self.lock().page(owner, after, limit))))
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let changed = match self.lock().tasks.get(id) {
                    Some(entry) if entry.task.version == version => Arc::clone(&entry.changed).notified_owned(),
                    _ => return Ok(()),
                };
                changed.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use super::*;
    use crate::backend::{TaskStatus, TaskStoreError};

    const HOUR: Duration = Duration::from_secs(3600);
    const POLL_INTERVAL: Duration = Duration::from_secs(1);
    const LIMITS: TaskLimits = TaskLimits { total: 3, per_owner: 2 };

    fn task(id: &str, owner: &str, ttl: Duration) -> TaskRecord {
        TaskRecord::new(id, owner, Timestamp::now(), ttl, POLL_INTERVAL)
    }

    /// Returns the output of a future that must be ready at once.
    fn now_or_panic<T>(mut future: StoreFuture<'_, T>) -> Result<T, TaskStoreError> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the future is pending"),
        }
    }

    fn ids(tasks: &[TaskRecord]) -> Vec<&str> {
        tasks.iter().map(|task| task.id.as_str()).collect()
    }

    #[test]
    fn limits_hold_per_owner_and_in_total() {
        let tasks = MemoryTasks::default();
        for (id, owner, is_inserted) in [
            ("1", "a", true),
            ("1", "b", false),
            ("2", "a", true),
            ("3", "a", false),
            ("4", "b", true),
            ("5", "c", false),
        ] {
            let inserted = now_or_panic(tasks.insert(task(id, owner, HOUR), LIMITS));
            assert_eq!(inserted, Ok(is_inserted), "{id} of {owner}");
        }
    }

    #[test]
    fn finished_tasks_are_evicted_the_owners_own_first() {
        let tasks = MemoryTasks::default();
        let insert = |id: &str, owner: &str| now_or_panic(tasks.insert(task(id, owner, HOUR), LIMITS)).unwrap();
        let finish = |id: &str, millis: u64| {
            let found = now_or_panic(tasks.load(id)).unwrap().unwrap();
            let updated = Timestamp::from_unix_millis(millis);
            let finished = TaskRecord { status: TaskStatus::Failed, version: found.version + 1, updated, ..found };
            assert_eq!(now_or_panic(tasks.replace(finished)), Ok(true));
        };
        let ids = |owner: &str| -> Vec<_> {
            now_or_panic(tasks.page(owner, None, 9)).unwrap().into_iter().map(|task| task.id).collect()
        };
        assert!(insert("1", "a") && insert("2", "a") && !insert("3", "a"));
        finish("1", 20);
        finish("2", 10);
        assert!(insert("3", "a"), "a finished task of the owner is evicted");
        assert_eq!(ids("a"), ["1", "3"]);
        assert!(insert("4", "b") && insert("5", "c"), "a finished task of another owner is evicted");
        assert_eq!(ids("a"), ["3"]);
        assert!(!insert("6", "d"), "unfinished tasks stay");
        finish("3", 10);
        finish("4", 20);
        assert!(insert("6", "b"), "the owner's own task is evicted before an older one of another owner");
        assert_eq!((ids("a"), ids("b")), (vec!["3".to_owned()], vec!["6".to_owned()]));
        assert_eq!(tasks.lock().by_expiry.len(), 3);
    }

    #[test]
    fn finished_tasks_beyond_the_memory_are_evicted_those_of_the_largest_owner_first() {
        let tasks = MemoryTasks::default();
        tasks.lock().max_bytes = 100;
        let limits = TaskLimits { total: 9, per_owner: 9 };
        let finish = |id: &str, owner: &str, bytes: usize, millis: u64| {
            now_or_panic(tasks.insert(task(id, owner, HOUR), limits)).unwrap();
            let found = now_or_panic(tasks.load(id)).unwrap().unwrap();
            let outcome = Some(TaskOutcome::Result("x".repeat(bytes).into()));
            let (status, updated) = (TaskStatus::Completed, Timestamp::from_unix_millis(millis));
            let finished = TaskRecord { status, version: found.version + 1, updated, outcome, ..found };
            assert_eq!(now_or_panic(tasks.replace(finished)), Ok(true));
        };
        now_or_panic(tasks.insert(task("unfinished", "eve", HOUR), limits)).unwrap();
        for (id, owner, bytes, kept) in [
            ("1", "ada", 30, &["1"][..]),
            ("2", "eve", 40, &["1", "2"]),
            ("3", "eve", 30, &["1", "2", "3"]),
            ("4", "eve", 40, &["1", "3", "4"]),
            ("5", "eve", 101, &["1"]),
            ("6", "bob", 70, &["1", "6"]),
        ] {
            finish(id, owner, bytes, id.parse().unwrap());
            let mut ids: Vec<_> = tasks.lock().tasks.keys().filter(|id| *id != "unfinished").cloned().collect();
            ids.sort_unstable();
            assert_eq!(ids, kept, "after {id}");
        }
        let store = tasks.lock();
        assert_eq!((store.bytes, store.by_owner["eve"].bytes), (100, 0));
    }

    #[test]
    fn expired_tasks_are_removed_from_every_index() {
        let tasks = MemoryTasks::default();
        for id in ["1", "2"] {
            assert_eq!(now_or_panic(tasks.insert(task(id, "a", Duration::ZERO), LIMITS)), Ok(true));
        }
        assert_eq!(now_or_panic(tasks.load("1")), Ok(None));
        assert_eq!(now_or_panic(tasks.page("a", None, 9)), Ok(vec![]));
        now_or_panic(tasks.changed("1", 0)).unwrap();
        let store = tasks.lock();
        assert!(store.tasks.is_empty() && store.by_owner.is_empty() && store.by_expiry.is_empty());
    }

    #[test]
    fn only_the_next_version_replaces_a_task() {
        let tasks = MemoryTasks::default();
        now_or_panic(tasks.insert(task("1", "a", HOUR), LIMITS)).unwrap();
        let changed = TaskRecord { status: TaskStatus::Completed, ..task("1", "a", HOUR) };
        for (version, is_next) in [(0, false), (2, false), (1, true), (1, false), (2, true)] {
            let replaced = now_or_panic(tasks.replace(TaskRecord { version, ..changed.clone() }));
            assert_eq!(replaced, Ok(is_next), "version {version}");
        }
        assert_eq!(now_or_panic(tasks.replace(TaskRecord { id: "2".to_owned(), version: 1, ..changed })), Ok(false));
    }

    #[test]
    fn a_change_wakes_waiters_and_is_not_missed_by_later_ones() {
        let tasks = MemoryTasks::default();
        now_or_panic(tasks.insert(task("1", "a", HOUR), LIMITS)).unwrap();
        let mut changed = tasks.changed("1", 0);
        assert!(changed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        now_or_panic(tasks.replace(TaskRecord { version: 1, ..task("1", "a", HOUR) })).unwrap();
        now_or_panic(changed).unwrap();
        now_or_panic(tasks.changed("1", 0)).unwrap();
    }

    #[test]
    fn pages_are_sorted_by_creation_time_and_id() {
        let tasks = MemoryTasks::default();
        for (id, millis) in [("b", 1), ("c", 1), ("a", 2)] {
            let task = TaskRecord::new(id, "a", Timestamp::from_unix_millis(millis), Duration::MAX, POLL_INTERVAL);
            now_or_panic(tasks.insert(task, TaskLimits { total: 9, per_owner: 9 })).unwrap();
        }
        for (after, limit, expected) in [
            (None, 9, vec!["b", "c", "a"]),
            (None, 2, vec!["b", "c"]),
            (Some((1, "b")), 9, vec!["c", "a"]),
            (Some((1, "bb")), 9, vec!["c", "a"]),
            (Some((2, "a")), 9, vec![]),
        ] {
            let after = after.map(|(millis, id)| TaskCursor::new(Timestamp::from_unix_millis(millis), id));
            let page = now_or_panic(tasks.page("a", after.as_ref(), limit)).unwrap();
            assert_eq!(ids(&page), expected, "{after:?}");
        }
        assert_eq!(now_or_panic(tasks.page("b", None, 9)), Ok(vec![]));
    }
}
