//! A set whose members leave it when they are dropped.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// A set of weak references. It needs no bound of its own: it contains only members that are kept alive elsewhere.
pub(crate) struct WeakSet<T>(Mutex<Members<T>>);

struct Members<T> {
    last_number: u64,
    /// The members by number, in the order in which they were added.
    by_number: BTreeMap<u64, Weak<T>>,
}

/// A guard that removes a member from its set when dropped. It is owned by the member.
pub(crate) struct Registration<T> {
    set: Weak<WeakSet<T>>,
    number: u64,
}

impl<T> WeakSet<T> {
    /// Adds a member.
    pub(crate) fn insert(self: &Arc<Self>, member: &Arc<T>) -> Registration<T> {
        let mut members = self.members();
        members.last_number += 1;
        let number = members.last_number;
        members.by_number.insert(number, Arc::downgrade(member));
        Registration { set: Arc::downgrade(self), number }
    }

    /// Returns the members, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<T>> {
        // Collected first, since dropping the last reference to a member locks the set.
        let members: Vec<_> = self.members().by_number.values().filter_map(Weak::upgrade).collect();
        members.into_iter()
    }

    fn members(&self) -> MutexGuard<'_, Members<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for WeakSet<T> {
    fn default() -> Self {
        Self(Mutex::new(Members { last_number: 0, by_number: BTreeMap::new() }))
    }
}

impl<T> fmt::Debug for WeakSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSet").field("members", &self.members().by_number.len()).finish()
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        if let Some(set) = self.set.upgrade() {
            set.members().by_number.remove(&self.number);
        }
    }
}

impl<T> fmt::Debug for Registration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("number", &self.number).finish_non_exhaustive()
    }
}
