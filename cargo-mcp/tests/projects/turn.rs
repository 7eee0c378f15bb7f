//! Tests that build packages take turns, so that each build has a core, however many tests run at once.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread::available_parallelism,
};

/// The number of tests that have their turn.
static TAKEN: Mutex<usize> = Mutex::new(0);
static RETURNED: Condvar = Condvar::new();

/// The turn of a test, until it is dropped.
pub(crate) struct Turn(());

impl Turn {
    /// Waits until fewer tests than there are cores have their turn.
    pub(crate) fn take() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        *RETURNED.wait_while(taken, |taken| *taken >= cores).unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RETURNED.notify_one();
    }
}
