//! What is being worked on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The jobs that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    jobs: Mutex<Vec<String>>,
}

/// A job at work; it ends when this is dropped, also in the midst of it.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    desk: &'a Desk,
    name: String,
}

impl Desk {
    pub(crate) fn begin(&self, name: &str) -> Job<'_> {
        self.jobs().push(name.to_owned());
        Job { desk: self, name: name.to_owned() }
    }

    pub(crate) fn at_work(&self) -> Vec<String> {
        self.jobs().clone()
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<String>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let mut jobs = self.desk.jobs();
        if let Some(at) = jobs.iter().position(|job| *job == self.name) {
            jobs.remove(at);
        }
    }
}
