//! The finished tasks that a process can evict without searching the backend.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::key::TaskKey;
use crate::backend::RecordVersion;

/// The maximum number of tasks that are known, of about 300 bytes each. If there are more, the oldest ones are
/// forgotten, and the backend must be searched for them.
const MAX_KNOWN: usize = 16_384;

/// The parts of a task that are needed to delete its records.
#[derive(Debug, Clone)]
pub(super) struct StoredTask {
    pub(super) key: TaskKey,
    pub(super) stored: RecordVersion,
    /// The hash of the peer that the task is counted for.
    pub(super) peer: String,
    /// Whether the result is a record of its own.
    pub(super) has_result: bool,
}

/// The finished tasks that this process knows, in the order in which they finished. Some may no longer exist.
#[derive(Debug, Default)]
pub(super) struct FinishedTasks {
    by_number: BTreeMap<u64, StoredTask>,
    /// The numbers of the tasks of each peer that has any.
    by_peer: HashMap<String, VecDeque<u64>>,
    last_number: u64,
}

impl FinishedTasks {
    /// Adds the task that has finished last.
    pub(super) fn push(&mut self, task: StoredTask) {
        if self.by_number.len() >= MAX_KNOWN {
            self.take_oldest();
        }
        self.last_number += 1;
        match self.by_peer.get_mut(&task.peer) {
            Some(of_peer) => of_peer.push_back(self.last_number),
            None => drop(self.by_peer.insert(task.peer.clone(), [self.last_number].into())),
        }
        self.by_number.insert(self.last_number, task);
    }

    /// Replaces all tasks.
    pub(super) fn replace(&mut self, tasks: impl IntoIterator<Item = StoredTask>) {
        *self = Self::default();
        tasks.into_iter().for_each(|task| self.push(task));
    }

    /// Returns the task of a peer that finished first.
    pub(super) fn oldest_of(&self, peer: &str) -> Option<&StoredTask> {
        self.by_number.get(self.by_peer.get(peer)?.front()?)
    }

    /// Removes and returns the task of a peer that finished first. If the peer has none and `may_take_others` is set,
    /// the task of another peer is used instead.
    pub(super) fn take(&mut self, peer: &str, may_take_others: bool) -> Option<StoredTask> {
        self.take_of(peer).or_else(|| if may_take_others { self.take_oldest() } else { None })
    }

    /// Removes and returns the task of a peer that finished first.
    fn take_of(&mut self, peer: &str) -> Option<StoredTask> {
        let of_peer = self.by_peer.get_mut(peer)?;
        let number = of_peer.pop_front()?;
        if of_peer.is_empty() {
            self.by_peer.remove(peer);
        }
        self.by_number.remove(&number)
    }

    /// Removes and returns the task that finished first.
    fn take_oldest(&mut self) -> Option<StoredTask> {
        let peer = self.by_number.first_key_value()?.1.peer.clone();
        self.take_of(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::key::test_key, *};
    use crate::backend::Timestamp;

    fn task(name: char, peer: &str) -> StoredTask {
        let key = test_key("", name, Timestamp::from_unix_millis(1));
        StoredTask { key, stored: RecordVersion::new(1), peer: peer.to_owned(), has_result: false }
    }

    fn name(task: Option<StoredTask>) -> Option<char> {
        task?.key.id().chars().next()
    }

    #[test]
    fn tasks_are_taken_in_the_order_in_which_they_finished() {
        let mut finished = FinishedTasks::default();
        finished.push(task('x', "eve"));
        finished.replace([('1', "ada"), ('2', "eve"), ('3', "ada"), ('4', "")].map(|(name, peer)| task(name, peer)));
        finished.push(task('5', "ada"));
        for (peer, may_take_others, expected) in [
            ("ada", true, Some('1')),
            ("bob", false, None),
            ("bob", true, Some('2')),
            ("eve", false, None),
            ("ada", false, Some('3')),
            ("eve", true, Some('4')),
            ("", true, Some('5')),
            ("", true, None),
        ] {
            assert_eq!(name(finished.take(peer, may_take_others)), expected, "{peer:?}");
        }
        assert!(finished.by_peer.is_empty());
    }

    #[test]
    fn the_oldest_tasks_beyond_the_maximum_are_forgotten() {
        let mut finished = FinishedTasks::default();
        finished.push(task('1', "ada"));
        (0..MAX_KNOWN).for_each(|_| finished.push(task('2', "eve")));
        assert_eq!((finished.by_number.len(), finished.by_peer.len()), (MAX_KNOWN, 1));
    }
}
