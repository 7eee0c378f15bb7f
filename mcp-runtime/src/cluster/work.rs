//! The due work of a replica for its shared sessions.

use std::collections::VecDeque;

use tokio::sync::Notify;

use crate::mutex::Mutex;

/// A job for a session, which the job names by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Take the answer to a question of this replica, which another replica has stored.
    TakeAnswer(String, u64),
    /// Cancel the calls of this replica that other replicas were told to cancel.
    TakeCancellations(String),
    /// Delete a cancellation that has taken effect, given by the id of its request as JSON.
    ForgetCancellation(String, String),
    /// Read the session again.
    Refresh(String),
    /// Announce that the session has this revision or has ended, which the other replicas may not have heard.
    Announce(String, u64),
    /// Announce that any session may have changed or ended.
    AnnounceAll,
    /// Extend the time for which the session is kept.
    Renew(String),
    /// Delete the session of a peer, which could not be opened.
    Remove(String, String),
}

/// The due work, by kind. No kind waits for another.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    pub(super) answers: WorkQueue,
    pub(super) cancellations: WorkQueue,
    pub(super) refreshes: WorkQueue,
    pub(super) announcements: WorkQueue,
    pub(super) renewals: WorkQueue,
    pub(super) removals: WorkQueue,
}

/// The maximum number of due entries of one kind. If there are more, all work of that kind is due.
const MAX_ENTRIES: usize = 1024;

/// The due work of one kind, which a single task takes.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The entries, in the order in which they were added.
    entries: VecDeque<Work>,
    /// Whether all possible entries are due, because there were too many to keep or because they are unknown.
    is_all: bool,
}

impl WorkQueue {
    /// Adds an entry, unless it is already due.
    pub(super) fn add(&self, entry: Work) {
        let mut state = self.state.lock();
        if state.is_all || state.entries.contains(&entry) {
            return;
        }
        if state.entries.len() >= MAX_ENTRIES {
            drop(state);
            return self.add_all();
        }
        state.entries.push_back(entry);
        drop(state);
        self.added.notify_one();
    }

    /// Makes everything due.
    pub(super) fn add_all(&self) {
        *self.state.lock() = State { entries: VecDeque::new(), is_all: true };
        self.added.notify_one();
    }

    /// Waits until something is due, and takes it. Returns `None` if all possible entries are due.
    pub(super) async fn next(&self) -> Option<Work> {
        loop {
            if let Some(due) = self.take() {
                return due;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<Option<Work>> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_all) {
            return Some(None);
        }
        state.entries.pop_front().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn entries_are_due_once_and_too_many_become_everything() {
        let due = WorkQueue::default();
        let entry = |number: usize| Work::Refresh(number.to_string());
        for number in [1, 2, 1] {
            due.add(entry(number));
        }
        assert_eq!((due.next().await, due.next().await), (Some(entry(1)), Some(entry(2))));
        for number in 0..=MAX_ENTRIES {
            due.add(entry(number));
        }
        due.add(entry(0));
        assert_eq!(due.next().await, None);
        due.add(entry(3));
        assert_eq!(due.next().await, Some(entry(3)), "what is added later is due again");
        assert_eq!(due.take(), None);
    }
}
