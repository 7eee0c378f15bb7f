//! A set whose members are kept alive elsewhere.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use crate::{debug::debug, mutex::Mutex};

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
        let mut members = self.0.lock();
        members.last_number += 1;
        let number = members.last_number;
        members.by_number.insert(number, Arc::downgrade(member));
        Registration { set: Arc::downgrade(self), number }
    }

    /// Returns the members, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<T>> {
        // Collected first, since dropping the last reference to a member locks the set.
        let members: Vec<_> = self.0.lock().by_number.values().filter_map(Weak::upgrade).collect();
        members.into_iter()
    }
}

impl<T> Default for WeakSet<T> {
    fn default() -> Self {
        Self(Mutex::new(Members { last_number: 0, by_number: BTreeMap::new() }))
    }
}

debug!(WeakSet<T>, self, members: self.0.lock().by_number.len());

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        if let Some(set) = self.set.upgrade() {
            set.0.lock().by_number.remove(&self.number);
        }
    }
}

debug!(Registration<T>, self, number: self.number);
