//! The memory of the arguments of unfinished tasks, which their functions hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The maximum number of bytes of arguments of all unfinished tasks. Beyond it, calls are not accepted as tasks.
const MAX_BYTES: usize = 256 << 20;
/// The maximum number of bytes of arguments of the unfinished tasks of one peer.
const MAX_BYTES_PER_PEER: usize = 32 << 20;

/// The arguments of the unfinished tasks of a server, in bytes of JSON.
#[derive(Debug, Default)]
pub(super) struct TaskArguments(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    total: usize,
    /// Contains only peers that use any. The limit on tasks bounds their number.
    by_peer: HashMap<Arc<str>, usize>,
}

/// A part of the memory, which is released when the permit is dropped.
#[derive(Debug)]
pub(super) struct ArgumentsPermit {
    arguments: Arc<TaskArguments>,
    peer: Arc<str>,
    bytes: usize,
}

impl TaskArguments {
    /// Reserves memory for the arguments of a task. Returns `None` if its peer, or all peers together, use too much. Peers
    /// without a name share only the total.
    pub(super) fn reserve(self: &Arc<Self>, peer: &str, bytes: usize) -> Option<ArgumentsPermit> {
        let mut used = self.used();
        let own = used.by_peer.get(peer).map_or(0, |own| *own);
        let max_own = if peer.is_empty() { MAX_BYTES } else { MAX_BYTES_PER_PEER };
        if used.total + bytes > MAX_BYTES || own + bytes > max_own {
            return None;
        }
        let peer: Arc<str> = peer.into();
        used.total += bytes;
        *used.by_peer.entry(Arc::clone(&peer)).or_default() += bytes;
        Some(ArgumentsPermit { arguments: Arc::clone(self), peer, bytes })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ArgumentsPermit {
    fn drop(&mut self) {
        let mut used = self.arguments.used();
        used.total -= self.bytes;
        if let Some(own) = used.by_peer.get_mut(&self.peer) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_arguments_of_a_peer_and_of_all_peers_are_bounded() {
        let arguments = Arc::new(TaskArguments::default());
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
            let permit = arguments.reserve(peer, mib * MIB);
            assert_eq!(permit.is_some(), is_reserved, "{mib} MiB of {peer:?}");
            permits.extend(permit);
        }
        permits.remove(0);
        assert!(arguments.reserve("ada", 32 * MIB).is_none());
        assert!(arguments.reserve("ada", 31 * MIB).is_some());
        permits.clear();
        let used = arguments.used();
        assert_eq!((used.total, used.by_peer.len()), (0, 0));
    }
}
