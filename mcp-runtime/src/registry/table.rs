//! The entries of one kind.

use std::{collections::HashMap, sync::Arc};

use super::entries::{Function, Registered};

/// Every registered entry of one kind, sorted by key.
#[derive(Debug, Clone)]
pub(super) struct Table<T> {
    rows: Vec<Row<T>>,
    enabled: Vec<Arc<T>>,
    /// The position of each key in `enabled`. The keys come from the author, so the hash needs no protection against
    /// collision attacks.
    index: HashMap<&'static str, usize, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Row<T> {
    entry: Arc<T>,
    enabled: bool,
}

impl<T> Clone for Row<T> {
    fn clone(&self) -> Self {
        Self { entry: Arc::clone(&self.entry), enabled: self.enabled }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), enabled: Vec::new(), index: HashMap::default() }
    }
}

impl<T: Registered> Table<T> {
    fn new(mut rows: Vec<Row<T>>) -> Self {
        // The sort is stable, so that duplicates are reported in the order of their registration.
        rows.sort_by_key(|row| row.entry.key());
        let enabled: Vec<_> = rows.iter().filter(|row| row.enabled).map(|row| Arc::clone(&row.entry)).collect();
        let index = enabled.iter().enumerate().map(|(position, entry)| (entry.key(), position)).collect();
        Self { rows, enabled, index }
    }

    /// Returns a table with additional entries, which are enabled.
    pub(super) fn with(&self, entries: Vec<T>) -> Self {
        let added = entries.into_iter().map(|entry| Row { entry: Arc::new(entry), enabled: true });
        Self::new(self.rows.iter().cloned().chain(added).collect())
    }

    /// Returns a table in which `decide` enables or disables the entries. Entries for which it returns `None` are
    /// removed.
    pub(super) fn edited(&self, decide: &impl Fn(&Function, bool) -> Option<bool>) -> Self {
        let decided = |row: &Row<T>| {
            let enabled = decide(row.entry.function(), row.enabled)?;
            Some(Row { entry: Arc::clone(&row.entry), enabled })
        };
        Self::new(self.rows.iter().filter_map(decided).collect())
    }

    /// Returns the enabled entry with a key.
    pub(super) fn get(&self, key: &str) -> Option<&T> {
        self.index.get(key).map(|&position| &*self.enabled[position])
    }

    /// Returns the enabled entries, sorted by key.
    pub(super) fn enabled(&self) -> &[Arc<T>] {
        &self.enabled
    }

    /// Returns every entry, enabled or not, sorted by key.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().map(|row| &*row.entry)
    }

    /// Returns the function of every entry, and whether the entry is enabled.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&Function, bool)> {
        self.rows.iter().map(|row| (row.entry.function(), row.enabled))
    }

    /// Returns whether both tables enable the same entries.
    pub(super) fn enables_same(&self, other: &Self) -> bool {
        self.enabled.len() == other.enabled.len()
            && self.enabled.iter().zip(&other.enabled).all(|(left, right)| Arc::ptr_eq(left, right))
    }
}
