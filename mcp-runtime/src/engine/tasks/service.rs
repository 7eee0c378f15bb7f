//! The tasks of a server, and their creation.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::task::AbortHandle;
use tracing::Instrument as _;

use super::{
    client::TaskClient, encode, key::hash, options::TaskOptions, quota::ByteQuota, runner::Runner, store::TaskStore,
    task::Task,
};
use crate::{
    auth::Scopes, backend::Backend, cluster::Replica, engine::call::running::RunningCall, error::Fault,
    excerpt::excerpt, handler::CallFuture, random::log_id,
};

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<TaskStore>,
    options: TaskOptions,
    runners: Arc<Runners>,
    arguments: Arc<ByteQuota>,
}

/// A task that is about to be created.
pub(crate) struct NewTask {
    pub(crate) owner: TaskOwner,
    /// The scopes that its function requires.
    pub(crate) scopes: Option<Arc<Scopes>>,
    /// The time to live that the client requests.
    pub(crate) ttl: Option<Duration>,
    /// The size of the arguments in bytes.
    pub(crate) argument_bytes: usize,
    pub(crate) call: RunningCall<'static>,
    pub(crate) client: Arc<TaskClient>,
}

/// The owner of a task.
#[derive(Debug)]
pub(crate) struct TaskOwner {
    /// The principal or session that may use the task. Empty if knowing the id is enough.
    pub(crate) name: String,
    /// The principal, network or session whose tasks are limited together. Empty if nothing distinguishes senders.
    pub(crate) peer: String,
}

/// A call that could not become a task.
pub(crate) struct Rejected {
    pub(crate) fault: Fault,
    pub(crate) running: CallFuture,
}

impl Tasks {
    pub(crate) fn new(backend: Arc<dyn Backend>, replica: Option<Arc<Replica>>, options: TaskOptions) -> Self {
        let store = Arc::new(TaskStore::new(backend, replica));
        Self { store, options, runners: Arc::default(), arguments: Arc::default() }
    }

    pub(crate) fn store(&self) -> &Arc<TaskStore> {
        &self.store
    }

    /// Inserts a task, runs it in the background, and returns the encoded result for its client.
    ///
    /// # Errors
    ///
    /// Fails if there are too many tasks, if their arguments are too large, or if the backend fails.
    pub(crate) async fn create(&self, new: NewTask, running: CallFuture) -> Result<Vec<u8>, Rejected> {
        let NewTask { owner: TaskOwner { name: owner, peer }, scopes, ttl, argument_bytes, call, client } = new;
        let Some(arguments) = self.arguments.reserve(&peer, argument_bytes) else {
            let fault = Fault::overloaded("the arguments of unfinished tasks are too large");
            return Err(Rejected { fault, running });
        };
        let ttl = ttl.unwrap_or(self.options.default_ttl).min(self.options.max_ttl);
        let key = match self.store.new_key(&owner).await {
            Ok(key) => key,
            Err(fault) => return Err(Rejected { fault, running }),
        };
        client.set_task_id(key.id());
        let peer = if peer.is_empty() { peer } else { hash(&peer) };
        let mut task = Task::new(key, peer, ttl, self.options.poll_interval);
        task.state.scopes = scopes.as_deref().cloned().unwrap_or_default();
        if let Err(fault) = self.store.insert(&mut task, self.options.limits).await {
            return Err(Rejected { fault, running });
        }
        tracing::info!(
            name = call.name,
            id = call.id.as_json(),
            task = log_id(task.id()),
            owner = (!owner.is_empty()).then(|| excerpt(&owner)).as_deref(),
            "task created"
        );
        let created = encode::created(&call.encoding, &task);
        if let Some(context) = &call.context {
            // The call no longer belongs to its connection.
            context.detach();
        }
        client.inbox().accept();
        let changes = self.store.watch_own(&task.key);
        let runner = Runner::new(Arc::clone(&self.store), task, call, client, arguments);
        // The future is large, and would be moved several times before it runs.
        self.runners.spawn(Box::pin(runner.run(changes, running)).in_current_span());
        Ok(created)
    }
}

/// The runners of one server, which are aborted when this value is dropped.
#[derive(Debug, Default)]
struct Runners(Mutex<Running>);

/// The runners that have not finished. The task limits bound their number.
#[derive(Debug, Default)]
struct Running {
    last_id: u64,
    handles: HashMap<u64, AbortHandle>,
}

impl Runners {
    /// Spawns a runner as a tokio task.
    fn spawn(self: &Arc<Self>, runner: impl Future<Output = ()> + Send + 'static) {
        let runners = Arc::downgrade(self);
        // The lock is held until the handle is inserted, so the runner cannot remove it earlier.
        let mut running = self.running();
        running.last_id += 1;
        let id = running.last_id;
        let task = tokio::spawn(async move {
            runner.await;
            if let Some(runners) = runners.upgrade() {
                runners.running().handles.remove(&id);
            }
        });
        running.handles.insert(id, task.abort_handle());
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.running().handles.values().for_each(AbortHandle::abort);
    }
}
