//! The synchronization primitives of the table of calls in flight and of the outbox: the primitives of `std`, or with
//! `--cfg shuttle` the primitives of shuttle, which runs the threads of a test in all interleavings.

#[cfg(all(test, shuttle))]
pub(super) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(all(test, shuttle)))]
pub(super) use std::sync::{Mutex, MutexGuard, atomic};
