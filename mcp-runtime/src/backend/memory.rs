use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{
    task::{Stored, TaskRecord, TaskRoom, TaskStore},
    time::now,
};

/// Tasks in the memory of one process.
#[derive(Debug, Default)]
pub struct MemoryTasks(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    tasks: HashMap<String, Entry>,
    /// The tasks of each owner, in the order of their making.
    owned: HashMap<String, BTreeSet<(u64, String)>>,
    /// In the order in which their time is over.
    ends: BTreeSet<(u64, String)>,
}

#[derive(Debug)]
struct Entry {
    task: TaskRecord,
    changed: Arc<Notify>,
}

impl MemoryTasks {
    /// The tasks whose time is not over.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sweep(now());
        kept
    }
}

impl Kept {
    /// Removes what is over.
    fn sweep(&mut self, now: u64) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, id)) = self.ends.pop_first()
        {
            self.remove(&id);
        }
    }

    fn insert(&mut self, task: TaskRecord, room: TaskRoom) -> bool {
        if self.tasks.contains_key(&task.id) || !self.make_room(&task.owner, room) {
            return false;
        }
        self.owned.entry(task.owner.clone()).or_default().insert((task.created, task.id.clone()));
        self.ends.insert((task.expires(), task.id.clone()));
        self.tasks.insert(task.id.clone(), Entry { task, changed: Arc::default() });
        true
    }

    /// Removes ended tasks until there is room for one more of an owner; false if too many have not ended.
    fn make_room(&mut self, owner: &str, room: TaskRoom) -> bool {
        while self.owned.get(owner).map_or(0, BTreeSet::len) >= room.of_owner {
            let Some(id) = self.ended_of(owner) else { return false };
            self.remove(&id);
        }
        while self.tasks.len() >= room.in_all {
            let Some(id) = self.ended_of(owner).or_else(|| ended_first(self.tasks.values())) else { return false };
            self.remove(&id);
        }
        true
    }

    /// The task of an owner that ended first.
    fn ended_of(&self, owner: &str) -> Option<String> {
        let owned = self.owned.get(owner).into_iter().flatten();
        ended_first(owned.filter_map(|(_, id)| self.tasks.get(id)))
    }

    fn replace(&mut self, task: TaskRecord) -> bool {
        let Some(entry) = self.tasks.get_mut(&task.id) else { return false };
        if entry.task.version.checked_add(1) != Some(task.version) {
            return false;
        }
        if entry.task.expires() != task.expires() {
            self.ends.remove(&(entry.task.expires(), task.id.clone()));
            self.ends.insert((task.expires(), task.id.clone()));
        }
        entry.task = task;
        entry.changed.notify_waiters();
        true
    }

    fn remove(&mut self, id: &str) {
        let Some(Entry { task, changed }) = self.tasks.remove(id) else { return };
        self.ends.remove(&(task.expires(), task.id.clone()));
        if let Some(owned) = self.owned.get_mut(&task.owner) {
            owned.remove(&(task.created, task.id));
            if owned.is_empty() {
                self.owned.remove(&task.owner);
            }
        }
        changed.notify_waiters();
    }

    fn page(&self, owner: &str, after: Option<(u64, &str)>, most: usize) -> Vec<TaskRecord> {
        let start = after.map_or(Bound::Unbounded, |(created, id)| Bound::Excluded((created, id.to_owned())));
        let owned = self.owned.get(owner).into_iter().flat_map(|owned| owned.range((start.clone(), Bound::Unbounded)));
        owned.filter_map(|(_, id)| self.tasks.get(id)).take(most).map(|entry| entry.task.clone()).collect()
    }
}

/// The task that ended before all others that have ended.
fn ended_first<'a>(tasks: impl Iterator<Item = &'a Entry>) -> Option<String> {
    let ended = tasks.map(|entry| &entry.task).filter(|task| task.status.is_final());
    ended.min_by_key(|task| (task.updated, &task.id)).map(|task| task.id.clone())
}

impl TaskStore for MemoryTasks {
    fn insert(&self, task: TaskRecord, room: TaskRoom) -> Stored<'_, bool> {
        Box::pin(ready(Ok(self.kept().insert(task, room))))
    }

    fn load<'a>(&'a self, id: &'a str) -> Stored<'a, Option<TaskRecord>> {
        Box::pin(ready(Ok(self.kept().tasks.get(id).map(|entry| entry.task.clone()))))
    }

    fn replace(&self, task: TaskRecord) -> Stored<'_, bool> {
        Box::pin(ready(Ok(self.kept().replace(task))))
    }

    fn page<'a>(&'a self, owner: &'a str, after: Option<(u64, &'a str)>, most: usize) -> Stored<'a, Vec<TaskRecord>> {
        Box::pin(ready(Ok(self.kept().page(owner, after, most))))
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> Stored<'a, ()> {
        Box::pin(async move {
            loop {
                let changed = match self.kept().tasks.get(id) {
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
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::backend::{TaskStatus, TaskStoreError};

    const HOUR: u64 = 3_600_000;
    const ROOMY: TaskRoom = TaskRoom { in_all: 3, of_owner: 2 };

    fn task(id: &str, owner: &str, ttl: u64) -> TaskRecord {
        TaskRecord::new(id, owner, now(), ttl, 1000)
    }

    /// What a store gives that has everything at hand.
    fn at_once<T>(mut stored: Stored<'_, T>) -> Result<T, TaskStoreError> {
        match stored.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it has to be waited for"),
        }
    }

    fn ids(tasks: &[TaskRecord]) -> Vec<&str> {
        tasks.iter().map(|task| task.id.as_str()).collect()
    }

    #[test]
    fn there_is_room_for_so_many_of_one_owner_and_in_all() {
        let tasks = MemoryTasks::default();
        for (id, owner, has_room) in [
            ("1", "a", true),
            ("1", "b", false),
            ("2", "a", true),
            ("3", "a", false),
            ("4", "b", true),
            ("5", "c", false),
        ] {
            assert_eq!(at_once(tasks.insert(task(id, owner, HOUR), ROOMY)), Ok(has_room), "{id} of {owner}");
        }
    }

    #[test]
    fn ended_tasks_make_room_the_owners_first() {
        let tasks = MemoryTasks::default();
        let keep = |id: &str, owner: &str| at_once(tasks.insert(task(id, owner, HOUR), ROOMY)).unwrap();
        let end = |id: &str, updated: u64| {
            let found = at_once(tasks.load(id)).unwrap().unwrap();
            let ended = TaskRecord { status: TaskStatus::Failed, version: found.version + 1, updated, ..found };
            assert_eq!(at_once(tasks.replace(ended)), Ok(true));
        };
        let ids = |owner: &str| -> Vec<_> {
            at_once(tasks.page(owner, None, 9)).unwrap().into_iter().map(|task| task.id).collect()
        };
        assert!(keep("1", "a") && keep("2", "a") && !keep("3", "a"));
        end("1", 20);
        end("2", 10);
        assert!(keep("3", "a"), "an owner's own make room");
        assert_eq!(ids("a"), ["1", "3"]);
        assert!(keep("4", "b") && keep("5", "c"), "anybody's make room");
        assert_eq!(ids("a"), ["3"]);
        assert!(!keep("6", "d"), "what has not ended stays");
        end("3", 10);
        end("4", 20);
        assert!(keep("6", "b"), "an owner's own go before older ones of others");
        assert_eq!((ids("a"), ids("b")), (vec!["3".to_owned()], vec!["6".to_owned()]));
        assert_eq!(tasks.kept().ends.len(), 3);
    }

    #[test]
    fn what_is_over_is_gone_and_leaves_nothing_behind() {
        let tasks = MemoryTasks::default();
        for id in ["1", "2"] {
            assert_eq!(at_once(tasks.insert(task(id, "a", 0), ROOMY)), Ok(true));
        }
        assert_eq!(at_once(tasks.load("1")), Ok(None));
        assert_eq!(at_once(tasks.page("a", None, 9)), Ok(vec![]));
        at_once(tasks.changed("1", 0)).unwrap();
        let kept = tasks.kept();
        assert!(kept.tasks.is_empty() && kept.owned.is_empty() && kept.ends.is_empty());
    }

    #[test]
    fn only_the_next_version_replaces_one() {
        let tasks = MemoryTasks::default();
        at_once(tasks.insert(task("1", "a", HOUR), ROOMY)).unwrap();
        let changed = TaskRecord { status: TaskStatus::Completed, ..task("1", "a", HOUR) };
        for (version, is_next) in [(0, false), (2, false), (1, true), (1, false), (2, true)] {
            let replaced = at_once(tasks.replace(TaskRecord { version, ..changed.clone() }));
            assert_eq!(replaced, Ok(is_next), "version {version}");
        }
        assert_eq!(at_once(tasks.replace(TaskRecord { id: "2".to_owned(), version: 1, ..changed })), Ok(false));
    }

    #[test]
    fn a_change_is_heard_of_also_when_it_came_before_anybody_listened() {
        let tasks = MemoryTasks::default();
        at_once(tasks.insert(task("1", "a", HOUR), ROOMY)).unwrap();
        let mut heard = tasks.changed("1", 0);
        assert!(heard.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        at_once(tasks.replace(TaskRecord { version: 1, ..task("1", "a", HOUR) })).unwrap();
        at_once(heard).unwrap();
        at_once(tasks.changed("1", 0)).unwrap();
    }

    #[test]
    fn pages_follow_the_making() {
        let tasks = MemoryTasks::default();
        for (id, created) in [("b", 1), ("c", 1), ("a", 2)] {
            let task = TaskRecord::new(id, "a", created, u64::MAX, 1000);
            at_once(tasks.insert(task, TaskRoom::new(9, 9))).unwrap();
        }
        for (after, most, expected) in [
            (None, 9, vec!["b", "c", "a"]),
            (None, 2, vec!["b", "c"]),
            (Some((1, "b")), 9, vec!["c", "a"]),
            (Some((1, "bb")), 9, vec!["c", "a"]),
            (Some((2, "a")), 9, vec![]),
        ] {
            assert_eq!(ids(&at_once(tasks.page("a", after, most)).unwrap()), expected, "{after:?}");
        }
        assert_eq!(at_once(tasks.page("b", None, 9)), Ok(vec![]));
    }
}
