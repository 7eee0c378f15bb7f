//! The tasks of a server, and how a call becomes one.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::{
    LOG_TARGET,
    client::TaskClient,
    encode,
    runner::Runner,
    store::{ByteQuota, MAX_BYTES, TaskStore},
    task::{Task, hash},
};
use crate::{
    backend::Backend,
    counters::{Buffered, Counter},
    engine::{limits::TaskOptions, replicas::Replicas, request::operation::Operation},
    error::Fault,
    excerpt::excerpt,
    handler::{CallFuture, Context, Finished, ResultKind, TaskHandoff, TaskPeer},
    mutex::Mutex,
    random::log_id,
    telemetry::SharedTelemetry,
};

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<TaskStore>,
    options: TaskOptions,
    /// The runners, which are aborted when the server is dropped. The task limits bound their number.
    runners: Mutex<JoinSet<()>>,
    arguments: Arc<ByteQuota>,
    telemetry: Option<SharedTelemetry>,
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
    /// Creates the tasks of the server with this name.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        replica: Option<Arc<dyn Replicas>>,
        options: TaskOptions,
        server: &str,
        telemetry: Option<SharedTelemetry>,
    ) -> Self {
        let store = Arc::new(TaskStore::new(backend, replica, server));
        Self { store, options, runners: Mutex::default(), arguments: Arc::default(), telemetry }
    }

    /// Returns the bytes of the arguments of unfinished tasks, and of long results.
    pub(crate) fn buffered(&self) -> (Buffered, Buffered) {
        let buffered = |used| Buffered { used, max: MAX_BYTES };
        (buffered(self.arguments.total()), buffered(self.store.result_bytes()))
    }

    pub(crate) fn store(&self) -> &Arc<TaskStore> {
        &self.store
    }

    /// Makes a call a task that lives for the requested time, runs it in the background, and returns the encoded result
    /// for its client.
    ///
    /// # Errors
    ///
    /// Fails if there are too many tasks, if their arguments are too large, or if the backend fails.
    pub(crate) async fn create(
        &self,
        owner: TaskOwner,
        ttl: Option<Duration>,
        context: Context,
        client: Arc<TaskClient>,
        running: CallFuture,
    ) -> Result<Vec<u8>, Rejected> {
        let TaskOwner { name: owner, peer } = owner;
        let call = context.call();
        let Some(arguments) = self.arguments.reserve(&peer, call.argument_bytes) else {
            let fault = Fault::refused(Counter::RefusedTasks, "the arguments of unfinished tasks are too large");
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
        task.state.scopes = call.function.as_ref().and_then(|function| function.scopes.clone()).unwrap_or_default();
        if let Err(fault) = self.store.insert(&mut task, self.options.limits).await {
            return Err(Rejected { fault, running });
        }
        tracing::info!(
            target: LOG_TARGET,
            name = &*call.name,
            id = call.id.as_json(),
            task = log_id(task.id()),
            principal = owner.strip_prefix("principal:").map(excerpt).as_deref(),
            session = owner.strip_prefix("session:").map(log_id),
            "task created"
        );
        let created = encode::created(&call.encoding, &task);
        // The call no longer belongs to its connection.
        context.detach();
        client.inbox().accept();
        let changes = self.store.watch_own(&task.key);
        let operation = Operation::of_task(self.telemetry.as_ref(), &context);
        let span = operation.span.clone();
        let runner = Runner::new(Arc::clone(&self.store), task, context, client, arguments);
        // The future is large, and would be moved several times before it runs.
        let runner = Box::pin(runner.run(changes, running, operation)).instrument(span);
        let mut runners = self.runners.lock();
        // Forgets the runners that have finished.
        while runners.try_join_next().is_some() {}
        runners.spawn(runner);
        Ok(created)
    }
}

/// A call that becomes a task when its function requests it.
pub(crate) struct DeferredTask {
    client: Arc<TaskClient>,
    is_requested: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// The tasks of the server. Weak, so that a call does not keep the tasks of a stopped server alive.
    tasks: Weak<Tasks>,
    /// The owner of the task. `None` once the handoff has begun.
    owner: Mutex<Option<TaskOwner>>,
}

impl DeferredTask {
    pub(crate) fn new(owner: TaskOwner, client: Arc<TaskClient>, tasks: Weak<Tasks>, at_once: bool) -> Self {
        let (is_requested, owner) = (AtomicBool::new(at_once), Mutex::new(Some(owner)));
        Self { client, is_requested, waker: Mutex::default(), tasks, owner }
    }
}

/// Creates a task that runs the rest of a function. If it is rejected, the rest runs as part of the call.
async fn start(
    tasks: Weak<Tasks>,
    owner: TaskOwner,
    context: Context,
    client: Arc<TaskClient>,
    rest: CallFuture,
) -> Finished {
    let Some(tasks) = tasks.upgrade() else { return Finished::failed(Fault::shutting_down()) };
    let name = context.call().name.clone();
    let Rejected { fault, running } = match tasks.create(owner, None, context, Arc::clone(&client), rest).await {
        Ok(body) => return Finished::of_kind(ResultKind::TaskCreated, body),
        Err(rejected) => rejected,
    };
    tracing::warn!(name = &*name, reason = %fault, "task rejected, continuing as a plain call");
    drop(tasks);
    client.inbox().reject();
    running.await
}

impl TaskHandoff for DeferredTask {
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_requested.store(true, Ordering::Release);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(self.client.inbox().decided())
    }

    fn poll_requested(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let owner = self.owner.lock();
        if owner.is_none() {
            return Poll::Pending;
        }
        *self.waker.lock() = Some(cx.waker().clone());
        if self.is_requested.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn task(&self) -> Option<&dyn TaskPeer> {
        self.client.inbox().is_task().then_some(&*self.client as _)
    }

    fn hand_off(&self, rest: CallFuture, context: Context) -> CallFuture {
        let Some(owner) = self.owner.lock().take() else { return rest };
        Box::pin(start(Weak::clone(&self.tasks), owner, context, Arc::clone(&self.client), rest))
    }
}
