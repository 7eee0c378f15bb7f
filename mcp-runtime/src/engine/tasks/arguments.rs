//! The memory of the arguments of unfinished tasks, which their functions hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The maximum number of bytes of arguments of all unfinished tasks. Beyond it, calls are not accepted as tasks.
const MAX_BYTES: usize = 256 << 20;
/// The maximum number of bytes of arguments of the unfinished tasks of one owner.
const MAX_BYTES_PER_OWNER: usize = 32 << 20;

/// The arguments of the unfinished tasks of a server, in bytes of JSON.
#[derive(Debug, Default)]
pub(super) struct TaskArguments(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    total: usize,
    /// Contains only owners who use any. The limit on tasks bounds their number.
    by_owner: HashMap<Arc<str>, usize>,
}

/// A part of the memory, which is released when the permit is dropped.
#[derive(Debug)]
pub(super) struct ArgumentsPermit {
    arguments: Arc<TaskArguments>,
    owner: Arc<str>,
    bytes: usize,
}

impl TaskArguments {
    /// Reserves memory for the arguments of a task. Returns `None` if its owner, or all owners together, use too much.
    /// Tasks without an owner share only the total.
    pub(super) fn reserve(self: &Arc<Self>, owner: &str, bytes: usize) -> Option<ArgumentsPermit> {
        let mut used = self.used();
        let owned = used.by_owner.get(owner).map_or(0, |owned| *owned);
        let max_owned = if owner.is_empty() { MAX_BYTES } else { MAX_BYTES_PER_OWNER };
        if used.total + bytes > MAX_BYTES || owned + bytes > max_owned {
            return None;
        }
        let owner: Arc<str> = owner.into();
        used.total += bytes;
        *used.by_owner.entry(Arc::clone(&owner)).or_default() += bytes;
        Some(ArgumentsPermit { arguments: Arc::clone(self), owner, bytes })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ArgumentsPermit {
    fn drop(&mut self) {
        let mut used = self.arguments.used();
        used.total -= self.bytes;
        if let Some(owned) = used.by_owner.get_mut(&self.owner) {
            *owned -= self.bytes;
            if *owned == 0 {
                used.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_arguments_of_an_owner_and_of_all_owners_are_bounded() {
        let arguments = Arc::new(TaskArguments::default());
        let mut permits = Vec::new();
        for (owner, mib, is_reserved) in [
            ("ada", 31, true),
            ("ada", 2, false),
            ("ada", 1, true),
            ("ada", 1, false),
            // Without an owner, tasks share what is left.
            ("", 200, true),
            ("eve", 25, false),
            ("eve", 24, true),
            ("bob", 1, false),
        ] {
            let permit = arguments.reserve(owner, mib * MIB);
            assert_eq!(permit.is_some(), is_reserved, "{mib} MiB of {owner:?}");
            permits.extend(permit);
        }
        permits.remove(0);
        assert!(arguments.reserve("ada", 32 * MIB).is_none());
        assert!(arguments.reserve("ada", 31 * MIB).is_some());
        permits.clear();
        let used = arguments.used();
        assert_eq!((used.total, used.by_owner.len()), (0, 0));
    }
}
