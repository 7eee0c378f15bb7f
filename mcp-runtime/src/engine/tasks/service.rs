use std::{sync::Arc, time::Duration};

use super::{
    claims::Claims,
    encode,
    record::failed,
    runner::{Job, Runner},
    runners::Runners,
    terms::TaskTerms,
};
use crate::{
    backend::{MemoryTasks, TaskRecord, TaskRoom, TaskStore, time::now},
    error::Fault,
    handler::Running,
    random,
};

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<dyn TaskStore>,
    terms: TaskTerms,
    runners: Arc<Runners>,
    claims: Arc<Claims>,
}

/// A task that is about to be made.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(super) id: String,
    pub(super) owner: String,
    /// How long its client wants it.
    pub(super) ttl: Option<Duration>,
}

/// Why there is no task, and what it would have run.
pub(super) struct Refused {
    pub(super) fault: Fault,
    pub(super) running: Running,
}

impl Tasks {
    pub(crate) fn new(store: Option<Arc<dyn TaskStore>>, terms: TaskTerms) -> Self {
        let store = store.unwrap_or_else(|| Arc::new(MemoryTasks::default()));
        Self { store, terms, runners: Arc::default(), claims: Arc::default() }
    }

    pub(crate) fn store(&self) -> &Arc<dyn TaskStore> {
        &self.store
    }

    pub(super) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Keeps a new task and lets it run; gives the result that its client gets.
    ///
    /// # Errors
    ///
    /// There are too many, or the store fails.
    pub(super) async fn create(&self, new: NewTask, job: Job, running: Running) -> Result<Vec<u8>, Refused> {
        let NewTask { id, owner, ttl } = new;
        let ttl = milliseconds(ttl.unwrap_or(self.terms.ttl).min(self.terms.longest));
        let of_owner = if owner.is_empty() { self.terms.in_all } else { self.terms.of_owner };
        let task = TaskRecord::new(id, owner, now(), ttl, milliseconds(self.terms.poll));
        let room = TaskRoom::new(self.terms.in_all, of_owner);
        match self.store.insert(task.clone(), room).await {
            Ok(true) => {}
            Ok(false) => {
                let why =
                    format!("there are too many tasks: at most {} may be kept, {of_owner} of one client", room.in_all);
                return Err(Refused { fault: Fault::Overloaded(why), running });
            }
            Err(error) => return Err(Refused { fault: failed(&error), running }),
        }
        tracing::debug!(name = job.callee.name, id = job.id.as_json(), "a call becomes a task");
        let created = encode::created(&job.encoding, &task);
        job.begin();
        let runner = Runner::new(Arc::clone(&self.store), task, job);
        self.runners.start(runner.run(running));
        Ok(created)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns an unguessable id.
pub(super) fn new_id() -> Result<String, Fault> {
    random::id().ok_or_else(|| Fault::internal("the server has no randomness"))
}
