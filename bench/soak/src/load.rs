//! State shared by all clients: whether they go on, and what they have seen.

use std::{
    fmt::Display,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The state of a load. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Load(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    operations: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// The maximum number of failures that are kept.
const MAX_FAILURES: usize = 20;

impl Load {
    pub fn is_on(&self) -> bool {
        !self.0.is_over.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }

    /// Counts a call, or an act of abuse.
    pub fn count(&self) {
        self.0.operations.fetch_add(1, Ordering::Relaxed);
    }

    pub fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::Relaxed)
    }

    /// Records a failure unless the outcome is true.
    pub fn expect<E: Display>(&self, outcome: Result<bool, E>, what: &str, version: &str) {
        match outcome {
            Ok(true) => {}
            Ok(false) => self.fail(format!("{what} ({version}) was refused")),
            Err(error) => self.fail(format!("{what} ({version}) failed: {error}")),
        }
    }

    pub fn fail(&self, failure: String) {
        let mut failures = self.0.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < MAX_FAILURES {
            failures.push(failure);
        }
    }

    pub fn failures(&self) -> Vec<String> {
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits for a random time with this average, in milliseconds.
pub async fn pause(average: u64) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..=2 * average))).await;
}
