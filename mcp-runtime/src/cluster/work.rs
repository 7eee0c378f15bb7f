//! The due work of a replica for its shared sessions.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// What a replica has to do for a session, given by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Take the answer to a question of this replica, which another one has stored.
    TakeAnswer(String, u64),
    /// Cancel the calls of this replica that others were told to cancel.
    TakeCancellations(String),
    /// Delete a cancellation that has taken effect, given by the id of its request as JSON.
    ForgetCancellation(String, String),
    /// Read the session again.
    Refresh(String),
    /// Announce that the session has this revision or has ended, which the other replicas may not have heard.
    Announce(String, u64),
    /// Announce that any session may have changed or ended.
    AnnounceAll,
}

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    pub(super) answers: WorkQueue<Work>,
    pub(super) cancellations: WorkQueue<Work>,
    pub(super) refreshes: WorkQueue<Work>,
    pub(super) announcements: WorkQueue<Work>,
}

/// The maximum number of due entries of one kind. If there are more, all work of that kind is due.
const MAX_ENTRIES: usize = 1024;

/// The due work of one kind, which a single task takes.
#[derive(Debug)]
pub(super) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    added: Notify,
}

#[derive(Debug)]
struct State<T> {
    /// The entries, in the order in which they were added.
    entries: VecDeque<T>,
    is_all: bool,
}

/// The next work to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due<T> {
    One(T),
    /// All possible entries, because there were too many to keep or because they are unknown.
    All,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { entries: VecDeque::new(), is_all: false }), added: Notify::new() }
    }
}

impl<T: PartialEq> WorkQueue<T> {
    /// Adds an entry, unless it is already due.
    pub(super) fn add(&self, entry: T) {
        let mut state = self.state();
        if state.is_all || state.entries.contains(&entry) {
            return;
        }
        if state.entries.len() < MAX_ENTRIES {
            state.entries.push_back(entry);
            drop(state);
            self.added.notify_one();
        } else {
            drop(state);
            self.add_all();
        }
    }

    /// Makes everything due.
    pub(super) fn add_all(&self) {
        let mut state = self.state();
        state.is_all = true;
        state.entries.clear();
        drop(state);
        self.added.notify_one();
    }

    /// Waits until something is due, and takes it.
    pub(super) async fn next(&self) -> Due<T> {
        loop {
            if let Some(due) = self.take() {
                return due;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<Due<T>> {
        let mut state = self.state();
        if std::mem::take(&mut state.is_all) {
            return Some(Due::All);
        }
        state.entries.pop_front().map(Due::One)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn entries_are_due_once_and_too_many_become_everything() {
        let due = WorkQueue::default();
        for entry in [1, 2, 1] {
            due.add(entry);
        }
        assert_eq!((due.next().await, due.next().await), (Due::One(1), Due::One(2)));
        for entry in 0..=MAX_ENTRIES {
            due.add(entry);
        }
        due.add(0);
        assert_eq!(due.next().await, Due::All);
        due.add(3);
        assert_eq!(due.next().await, Due::One(3), "what is added later is due again");
        assert_eq!(due.take(), None);
    }
}
