//! Which tasks are removed when there are too many.

use std::collections::HashMap;

use serde::Deserialize;

use super::{key::TaskKey, limits::TaskLimits, status::TaskStatus, task::StoredOutcome};
use crate::backend::{Record, RecordVersion, Timestamp};

/// The part of a limit by which there are too few tasks after an eviction, so that not every new task has to look for
/// one that can be evicted.
const SLACK: usize = 32;

/// What decides whether a task is evicted.
#[derive(Debug)]
pub(super) struct TaskSummary {
    pub(super) key: TaskKey,
    pub(super) stored: RecordVersion,
    pub(super) peer: String,
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
            Some(StoredOutcome::Separate { bytes }) => bytes,
            Some(StoredOutcome::Inline(_)) | None => 0,
        };
        let (bytes, finished) = (record.value.len() + separate, status.is_final().then_some(updated));
        Some(Self { key: TaskKey::of_name(name)?, stored: record.version, peer, bytes, finished })
    }
}

/// Returns the tasks that have to go so that a peer may add another one: its own finished ones before those of others,
/// and the oldest ones first. Returns `None` if too many are unfinished. A peer without a name shares only the total.
pub(super) fn beyond_limits<'a>(
    tasks: &'a [TaskSummary],
    peer: &str,
    limits: TaskLimits,
) -> Option<Vec<&'a TaskSummary>> {
    let (own, others): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| task.peer == peer);
    let excess = |count: usize, limit: usize| (count + 1).saturating_sub(limit);
    let excess_own = if peer.is_empty() { 0 } else { excess(own.len(), limits.per_owner) };
    let excess_total = excess(tasks.len(), limits.total);
    let (finished_own, finished_others) = (finished(own), finished(others));
    if finished_own.len() < excess_own || finished_own.len() + finished_others.len() < excess_total {
        return None;
    }
    let with_slack = |excess: usize, limit: usize| if excess == 0 { 0 } else { excess + limit / SLACK };
    let from_own = with_slack(excess_own, limits.per_owner).max(with_slack(excess_total, limits.total));
    let from_own = finished_own.into_iter().take(from_own).collect::<Vec<_>>();
    let from_others = with_slack(excess_total, limits.total).saturating_sub(from_own.len());
    Some(from_own.into_iter().chain(finished_others.into_iter().take(from_others)).collect())
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
        let (kept, of_peer) = by_peer.entry(&task.peer).or_default();
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
fn finished(mut tasks: Vec<&TaskSummary>) -> Vec<&TaskSummary> {
    tasks.retain(|task| task.finished.is_some());
    tasks.sort_by_key(|task| (task.finished, task.key.name()));
    tasks
}

#[cfg(test)]
mod tests {
    use super::{super::key::test_key, *};

    /// Creates the summary of a task of a peer, unfinished if `finished` is 0.
    fn task(name: char, peer: &str, bytes: usize, finished: u64) -> TaskSummary {
        let time = Timestamp::from_unix_millis;
        let finished = (finished > 0).then(|| time(finished));
        let (key, stored) = (test_key("", name, time(1)), RecordVersion::new(1));
        TaskSummary { key, stored, peer: peer.to_owned(), bytes, finished }
    }

    fn names(evicted: Option<Vec<&TaskSummary>>) -> Option<String> {
        Some(evicted?.iter().map(|task| &task.key.id()[..1]).collect())
    }

    #[test]
    fn finished_tasks_are_evicted_the_peers_own_first() {
        let limits = TaskLimits { total: 3, per_owner: 2 };
        for (tasks, peer, expected) in [
            (vec![], "a", Some("")),
            (vec![("a", 0)], "a", Some("")),
            (vec![("a", 0), ("a", 0)], "a", None),
            (vec![("a", 0), ("a", 0)], "b", Some("")),
            (vec![("a", 20), ("a", 10)], "a", Some("1")),
            (vec![("a", 20), ("a", 0), ("b", 0)], "c", Some("0")),
            (vec![("a", 0), ("a", 0), ("b", 0)], "c", None),
            (vec![("a", 10), ("b", 20), ("c", 0)], "b", Some("1")),
            (vec![("a", 0), ("a", 0), ("b", 10)], "a", None),
            // Without a name, peers share only the total.
            (vec![("", 0), ("", 0)], "", Some("")),
            (vec![("", 0), ("", 0), ("", 0)], "", None),
            (vec![("", 0), ("", 30), ("", 20)], "", Some("2")),
        ] {
            let tasks: Vec<_> = ('0'..).zip(tasks).map(|(name, (peer, at))| task(name, peer, 0, at)).collect();
            assert_eq!(names(beyond_limits(&tasks, peer, limits)).as_deref(), expected, "{peer}: {tasks:?}");
        }
    }

    #[test]
    fn several_tasks_are_evicted_at_once_if_there_are_many() {
        let limits = TaskLimits { total: 128, per_owner: 96 };
        let tasks: Vec<_> = (0..128).map(|at| task('x', if at % 4 == 0 { "a" } else { "b" }, 0, at + 1)).collect();
        for (peer, own, others) in [("a", 5, 0), ("b", 5, 0), ("c", 0, 5)] {
            let evicted = beyond_limits(&tasks, peer, limits).unwrap();
            let count = |is_own| evicted.iter().filter(|task| (task.peer == peer) == is_own).count();
            assert_eq!((count(true), count(false)), (own, others), "{peer}");
        }
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
