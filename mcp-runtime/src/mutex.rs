//! A mutex that panics do not poison.

use std::sync::{self, MutexGuard, PoisonError};

/// A [`std::sync::Mutex`] that can be locked after a thread has panicked while it held the lock. No function of an author
/// runs under a lock of the runtime, and what such a lock protects is consistent between any two statements.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
