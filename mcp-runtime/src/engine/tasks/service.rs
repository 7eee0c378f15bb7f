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

use tokio::{sync::watch, task::JoinSet};
use tracing::Instrument as _;

use super::{
    LOG_TARGET,
    client::TaskClient,
    encode,
    runner::Runner,
    store::{BytePermit, ByteQuota, MAX_BYTES, TaskStore},
    task::{Task, hash},
};
use crate::{
    backend::Backend,
    counters::{Buffered, Counter},
    engine::{limits::Limits, replicas::Replicas, request::operation::Operation},
    error::{Fault, excerpt},
    handler::{CallFuture, Context, Finished, ResultKind, TaskHandoff, TaskPeer},
    random::log_id,
    stdx::Mutex,
};

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub(super) store: Arc<TaskStore>,
    limits: Limits,
    /// The runners, which are aborted when the server is dropped. The task limits bound their number.
    runners: Mutex<JoinSet<()>>,
    /// Has one receiver for each runner.
    running: watch::Sender<()>,
    arguments: Arc<ByteQuota>,
}

/// The owner of a task.
#[derive(Debug)]
pub(crate) struct TaskOwner {
    /// The principal or session that may use the task. Empty if knowing the id is enough.
    pub(crate) name: String,
    /// The principal, network or session whose tasks are limited together. Empty if nothing distinguishes senders.
    pub(crate) peer: String,
}

impl Tasks {
    /// Creates the tasks of the server with this name.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        replica: Option<Arc<dyn Replicas>>,
        limits: Limits,
        server: &str,
    ) -> Self {
        let store = Arc::new(TaskStore::new(backend, replica, server));
        let (runners, running, arguments) = Default::default();
        Self { store, limits, runners, running, arguments }
    }

    /// Waits until no task is running.
    pub(crate) async fn ended(&self) {
        self.running.closed().await;
    }

    /// Ends all running tasks.
    pub(crate) fn abort(&self) {
        self.runners.lock().abort_all();
    }

    /// Returns the bytes of the arguments of unfinished tasks, and of long results.
    pub(crate) fn buffered(&self) -> (Buffered, Buffered) {
        let buffered = |used| Buffered { used, max: MAX_BYTES };
        (buffered(self.arguments.total()), buffered(self.store.results.quota.total()))
    }

    /// Stores the task of a call, which lives for the requested time. Also returns the permit for its arguments.
    ///
    /// # Errors
    ///
    /// Fails if there are too many tasks, if their arguments are too large, or if the backend fails.
    pub(super) async fn insert(
        &self,
        owner: TaskOwner,
        ttl: Option<Duration>,
        context: &Context,
        client: &TaskClient,
    ) -> Result<(Task, BytePermit), Fault> {
        let TaskOwner { name: owner, peer } = owner;
        let call = context.call();
        let arguments = self
            .arguments
            .reserve(&peer, call.argument_bytes)
            .ok_or_else(|| Fault::refused(Counter::RefusedTasks, "the arguments of unfinished tasks are too large"))?;
        let ttl = ttl.unwrap_or(self.limits.task_ttl).min(self.limits.max_task_ttl);
        let key = self.store.new_key(&owner).await?;
        client.set_task_id(key.id());
        let peer = if peer.is_empty() { peer } else { hash(&peer) };
        let mut task = Task::new(key, peer, ttl, self.limits.task_poll_interval);
        task.state.scopes = call.function.as_ref().and_then(|function| function.scopes.clone()).unwrap_or_default();
        self.store.insert(&mut task, self.limits.max_tasks).await?;
        tracing::info!(
            target: LOG_TARGET,
            name = &*call.name,
            id = call.id.as_json(),
            task = log_id(task.id()),
            principal = owner.split_once("principal:").map(|(_, principal)| excerpt(principal)).as_deref(),
            session = owner.strip_prefix("session:").map(log_id),
            "task created"
        );
        Ok((task, arguments))
    }

    /// Runs the call of a stored task in the background, and returns the encoded result for its client.
    pub(super) fn start(
        &self,
        (task, arguments): (Task, BytePermit),
        context: Context,
        client: Arc<TaskClient>,
        running: CallFuture,
    ) -> Vec<u8> {
        let created = encode::created(&context.call().encoding, &task);
        // The call no longer belongs to its connection.
        context.shared().lifetime.set_detached(true);
        client.inbox.decide(true);
        let changes = self.store.watch_own(&task.key);
        let operation = Operation::of_task(&context);
        let span = operation.span.clone();
        let runner = Runner { store: Arc::clone(&self.store), task, context, client, _arguments: arguments };
        // The future is large, and would be moved several times before it runs.
        let runner = Box::pin(runner.run(changes, running, operation)).instrument(span);
        let receiver = self.running.subscribe();
        let runner = async move {
            runner.await;
            drop(receiver);
        };
        let mut runners = self.runners.lock();
        // Forgets the runners that have finished.
        while runners.try_join_next().is_some() {}
        runners.spawn(runner);
        created
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

impl TaskHandoff for DeferredTask {
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_requested.store(true, Ordering::Release);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(self.client.inbox.decided())
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
        self.client.inbox.is_task().then_some(&*self.client as _)
    }

    /// Creates a task that runs the rest of a function. If it is rejected, the rest runs as part of the call.
    fn hand_off(&self, rest: CallFuture, context: Context) -> CallFuture {
        let Some(owner) = self.owner.lock().take() else { return rest };
        let (tasks, client) = (Weak::clone(&self.tasks), Arc::clone(&self.client));
        Box::pin(async move {
            let Some(tasks) = tasks.upgrade() else { return Finished::failed(Fault::shutting_down()) };
            match tasks.insert(owner, None, &context, &client).await {
                Ok(inserted) => {
                    Finished::of_kind(ResultKind::TaskCreated, tasks.start(inserted, context, client, rest))
                }
                Err(fault) => {
                    let name = &*context.call().name;
                    tracing::warn!(name, reason = %fault, "task rejected, continuing as a plain call");
                    drop(tasks);
                    client.inbox.decide(false);
                    rest.await
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Revision, Server};

    /// End at once.
    #[crate::tool(task)]
    async fn ends_at_once() {}

    /// A server may run any number of tasks, one after the other.
    #[tokio::test]
    async fn the_runners_of_tasks_that_have_ended_are_forgotten() {
        let built = Server::empty("test", "1.0.0").with::<ends_at_once>().build().unwrap();
        let mut client = built.test_client(Revision::V2025_11_25);
        for _ in 0..20 {
            let task = client.start_task("ends_at_once", ()).await.unwrap();
            task.result(&mut client).await.unwrap();
        }
        let kept = built.engine().tasks.runners.lock().len();
        assert!(kept < 10, "{kept}");
    }
}
