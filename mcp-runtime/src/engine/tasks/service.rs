//! The tasks of a server, and their creation.

use std::{sync::Arc, time::Duration};

use super::{
    arguments::TaskArguments,
    claims::InputClaims,
    encode,
    errors::store_failed,
    options::TaskOptions,
    runner::{Job, Runner},
    runners::Runners,
};
use crate::{
    auth::Scopes,
    backend::{MemoryTasks, TaskLimits, TaskRecord, TaskStore, Timestamp},
    error::Fault,
    excerpt::excerpt,
    handler::CallFuture,
    random,
};

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<dyn TaskStore>,
    claims: Arc<InputClaims>,
    options: TaskOptions,
    runners: Arc<Runners>,
    arguments: Arc<TaskArguments>,
}

/// A task that is about to be created.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) owner: String,
    /// The scopes that its function requires.
    pub(crate) scopes: Scopes,
    /// The time to live that the client requests.
    pub(crate) ttl: Option<Duration>,
    /// The size of the arguments in bytes.
    pub(crate) argument_bytes: usize,
}

/// A call that could not become a task.
pub(crate) struct Rejected {
    pub(crate) fault: Fault,
    pub(crate) running: CallFuture,
}

impl Tasks {
    pub(crate) fn new(store: Option<Arc<dyn TaskStore>>, options: TaskOptions) -> Self {
        let store = store.unwrap_or_else(|| Arc::new(MemoryTasks::default()));
        Self { store, claims: Arc::default(), options, runners: Arc::default(), arguments: Arc::default() }
    }

    pub(crate) fn store(&self) -> &Arc<dyn TaskStore> {
        &self.store
    }

    pub(super) fn claims(&self) -> &Arc<InputClaims> {
        &self.claims
    }

    /// Inserts a task, runs it in the background, and returns the encoded result for its client.
    ///
    /// # Errors
    ///
    /// Fails if there are too many tasks, if their arguments are too large, or if the store fails.
    pub(crate) async fn create(&self, new: NewTask, job: Job, running: CallFuture) -> Result<Vec<u8>, Rejected> {
        let NewTask { id, owner, scopes, ttl, argument_bytes } = new;
        let Some(arguments) = self.arguments.reserve(&owner, argument_bytes) else {
            let fault = Fault::overloaded("the arguments of unfinished tasks are too large");
            return Err(Rejected { fault, running });
        };
        let ttl = ttl.unwrap_or(self.options.default_ttl).min(self.options.max_ttl);
        let mut limits = self.options.limits;
        if owner.is_empty() {
            limits.per_owner = limits.total;
        }
        let mut task = TaskRecord::new(id, owner, Timestamp::now(), ttl, self.options.poll_interval);
        task.scopes = scopes;
        match self.store.insert(task.clone(), limits).await {
            Ok(true) => {}
            Ok(false) => return Err(Rejected { fault: too_many(limits), running }),
            Err(error) => return Err(Rejected { fault: store_failed(&error), running }),
        }
        tracing::info!(
            name = job.callee.name,
            id = job.id.as_json(),
            task = encode::log_id(&task.id),
            owner = (!task.owner.is_empty()).then(|| excerpt(&task.owner)).as_deref(),
            "task created"
        );
        let created = encode::created(&job.encoding, &task);
        job.accept();
        let runner = Runner::new(Arc::clone(&self.store), task, job, arguments);
        self.runners.spawn(runner.run(running));
        Ok(created)
    }
}

fn too_many(limits: TaskLimits) -> Fault {
    let TaskLimits { total, per_owner, .. } = limits;
    Fault::overloaded(format!("too many tasks: the limit is {total} in total and {per_owner} per client"))
}

/// Returns a random id that cannot be guessed.
pub(crate) fn new_id() -> Result<String, Fault> {
    random::id().ok_or_else(|| Fault::internal("the server cannot generate random ids"))
}
