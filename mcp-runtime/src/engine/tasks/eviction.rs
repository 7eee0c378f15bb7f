//! Which tasks are removed when their results take up too much memory.

use std::collections::HashMap;

use serde::Deserialize;

use super::{
    finished::StoredTask,
    key::TaskKey,
    task::{StoredOutcome, TaskStatus},
};
use crate::backend::{Record, Timestamp};

/// The properties that decide whether a task is evicted.
#[derive(Debug)]
pub(super) struct TaskSummary {
    pub(super) task: StoredTask,
    /// The size of the record and the result in bytes.
    pub(super) bytes: usize,
    /// The time at which the task finished, `None` if it has not.
    finished: Option<Timestamp>,
}

impl TaskSummary {
    /// Decodes a record. Returns `None` for one that this release cannot read.
    pub(super) fn decode(name: &str, record: &Record) -> Option<Self> {
        #[derive(Deserialize)]
        struct State {
            peer: String,
            status: TaskStatus,
            updated: Timestamp,
            outcome: Option<StoredOutcome>,
        }

        let State { peer, status, updated, outcome } = serde_json::from_slice(&record.value).ok()?;
        let separate = match outcome {
            Some(StoredOutcome::Separate { bytes }) => Some(bytes),
            Some(StoredOutcome::Inline(_)) | None => None,
        };
        let bytes = record.value.len() + separate.unwrap_or_default();
        let finished = status.is_final().then_some(updated);
        let (key, has_result) = (TaskKey::of_name(name)?, separate.is_some());
        let task = StoredTask { key, stored: record.version, peer, has_result };
        Some(Self { task, bytes, finished })
    }
}

/// Returns the finished tasks that have to go so that a result of a peer fits: each time the oldest one of the peer that
/// keeps the most, counting the new result. Returns `None` if that peer is the one with the new result, and has no other
/// finished task.
pub(super) fn beyond_bytes<'a>(
    tasks: &'a [TaskSummary],
    peer: &str,
    bytes: usize,
    max_bytes: usize,
) -> Option<Vec<&'a TaskSummary>> {
    let mut total = bytes.saturating_add(tasks.iter().map(|task| task.bytes).sum());
    let mut by_peer: HashMap<&str, (usize, Vec<&TaskSummary>)> = HashMap::new();
    by_peer.entry(peer).or_default().0 += bytes;
    for task in tasks {
        let (kept, of_peer) = by_peer.entry(&task.task.peer).or_default();
        *kept += task.bytes;
        of_peer.push(task);
    }
    for (_, of_peer) in by_peer.values_mut() {
        *of_peer = finished(std::mem::take(of_peer));
        of_peer.reverse();
    }
    let mut evicted = Vec::new();
    while total > max_bytes {
        let can_shrink = by_peer.iter_mut().filter(|(name, (_, of_peer))| **name == peer || !of_peer.is_empty());
        let (_, (kept, of_peer)) = can_shrink.max_by_key(|(name, (kept, _))| (*kept, **name != peer))?;
        let task = of_peer.pop()?;
        *kept -= task.bytes;
        total -= task.bytes;
        evicted.push(task);
    }
    Some(evicted)
}

/// Returns the finished tasks, beginning with the one that finished first.
pub(super) fn finished(mut tasks: Vec<&TaskSummary>) -> Vec<&TaskSummary> {
    tasks.retain(|task| task.finished.is_some());
    tasks.sort_by(|a, b| (a.finished, a.task.key.id()).cmp(&(b.finished, b.task.key.id())));
    tasks
}

#[cfg(test)]
mod tests {
    use super::{super::key::test_key, *};
    use crate::backend::RecordVersion;

    /// Creates the summary of a task of a peer, unfinished if `finished` is 0.
    fn task(name: char, peer: &str, bytes: usize, finished: u64) -> TaskSummary {
        let time = Timestamp::from_unix_millis;
        let finished = (finished > 0).then(|| time(finished));
        let (key, stored) = (test_key("", name, time(1)), RecordVersion::new(1));
        TaskSummary { task: StoredTask { key, stored, peer: peer.to_owned(), has_result: false }, bytes, finished }
    }

    fn names(evicted: Option<Vec<&TaskSummary>>) -> Option<String> {
        Some(evicted?.iter().map(|task| &task.task.key.id()[..1]).collect())
    }

    #[test]
    fn results_beyond_the_memory_evict_those_of_the_largest_peer_first() {
        for (tasks, peer, bytes, expected) in [
            (vec![("ada", 30, 1)], "eve", 70, Some("")),
            (vec![("ada", 30, 1), ("eve", 40, 2), ("eve", 30, 3)], "eve", 40, Some("1")),
            (vec![("ada", 30, 1), ("eve", 40, 2), ("eve", 30, 3)], "bob", 10, Some("1")),
            (vec![("ada", 30, 1), ("eve", 30, 3), ("eve", 40, 4)], "bob", 35, Some("12")),
            (vec![("ada", 30, 1), ("eve", 30, 3), ("eve", 40, 4)], "bob", 70, None),
            // The peer with the new result keeps the most.
            (vec![("ada", 30, 1), ("eve", 30, 3), ("eve", 40, 4)], "eve", 101, None),
            (vec![("ada", 60, 1)], "eve", 70, None),
            (vec![("ada", 60, 1)], "eve", 50, Some("0")),
            // Unfinished tasks stay.
            (vec![("ada", 60, 0)], "eve", 50, None),
            (vec![("ada", 60, 0), ("bob", 30, 1)], "eve", 20, Some("1")),
        ] {
            let tasks: Vec<_> =
                ('0'..).zip(tasks).map(|(name, (peer, bytes, at))| task(name, peer, bytes, at)).collect();
            assert_eq!(names(beyond_bytes(&tasks, peer, bytes, 100)).as_deref(), expected, "{peer}: {tasks:?}");
        }
    }
}
