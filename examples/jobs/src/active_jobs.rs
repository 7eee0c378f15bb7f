//! The jobs that are running.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of the running jobs.
#[derive(Debug, Default)]
pub(crate) struct ActiveJobs(Mutex<Vec<String>>);

/// A running job. It ends on drop, also when its function is cancelled.
#[derive(Debug)]
pub(crate) struct JobGuard<'a> {
    jobs: &'a ActiveJobs,
    name: String,
}

impl ActiveJobs {
    /// Adds a job for as long as the guard lives.
    pub(crate) fn start(&self, name: &str) -> JobGuard<'_> {
        self.lock().push(name.to_owned());
        JobGuard { jobs: self, name: name.to_owned() }
    }

    /// Returns the names of the running jobs.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        let mut names = self.jobs.lock();
        if let Some(at) = names.iter().position(|name| *name == self.name) {
            names.remove(at);
        }
    }
}
