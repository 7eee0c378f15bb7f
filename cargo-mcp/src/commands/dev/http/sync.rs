//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. Ignores poisoning: no critical section here leaves inconsistent data when it panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
