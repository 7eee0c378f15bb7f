//! The tasks of a server, and how a call becomes one.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use tokio::task::AbortHandle;
use tracing::Instrument as _;

use super::{
    client::TaskClient, encode, key::hash, options::TaskOptions, quota::ByteQuota, runner::Runner, store::TaskStore,
    task::Task,
};
use crate::{
    auth::Scopes,
    backend::Backend,
    engine::{call::running::RunningCall, outbox::Outbox, replicas::Replicas},
    error::Fault,
    excerpt::excerpt,
    handler::{
        AnswerFuture, CallConnection, CallFuture, CheckAnswer, ClientRequester, Context, Finished, OnceValues,
        SessionPeer, TaskHandoff,
        ask::{ElicitationSession, Question},
    },
    model::Level,
    random::log_id,
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
    pub(crate) fn new(backend: Arc<dyn Backend>, replica: Option<Arc<dyn Replicas>>, options: TaskOptions) -> Self {
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

/// A call that becomes a task when its function requests it. Until then, its questions and notifications are sent like
/// those of a plain call; afterwards, like those of a task.
pub(crate) struct DeferredTask {
    call_requester: Arc<dyn ClientRequester>,
    outbox: Arc<Outbox>,
    client: Arc<TaskClient>,
    is_requested: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// The tasks of the server. Weak, so that a call does not keep those of a stopped server alive.
    tasks: Weak<Tasks>,
    /// The task, without the context of its call. `None` once the handoff has begun.
    pending: Mutex<Option<NewTask>>,
}

impl DeferredTask {
    pub(crate) fn new(
        call_requester: Arc<dyn ClientRequester>,
        outbox: Arc<Outbox>,
        client: Arc<TaskClient>,
        tasks: Weak<Tasks>,
        at_once: bool,
    ) -> Self {
        let (is_requested, pending) = (AtomicBool::new(at_once), Mutex::default());
        Self { call_requester, outbox, client, is_requested, waker: Mutex::default(), tasks, pending }
    }

    /// Sets the task that the call may become, without the context of the call, before the call runs.
    pub(crate) fn set_task(&self, task: NewTask) {
        *self.pending() = Some(task);
    }

    fn pending(&self) -> MutexGuard<'_, Option<NewTask>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requester of the call, or of the task that it has become.
    fn requester(&self) -> &dyn ClientRequester {
        if self.client.inbox().is_task() { &*self.client } else { &*self.call_requester }
    }

    /// Returns the peer of the call, or of the task that it has become.
    fn peer(&self) -> &dyn CallConnection {
        if self.client.inbox().is_task() { &*self.client } else { &*self.outbox }
    }
}

/// Creates a task that runs the rest of a function. If it is rejected, the rest runs as part of the call.
async fn start(tasks: Weak<Tasks>, task: NewTask, rest: CallFuture) -> Result<Finished, Fault> {
    let Some(tasks) = tasks.upgrade() else { return Err(Fault::shutting_down()) };
    let (inbox, name) = (Arc::clone(task.client.inbox()), task.call.name);
    let Rejected { fault, running } = match tasks.create(task, rest).await {
        Ok(body) => return Ok(Finished::with_result(body)),
        Err(rejected) => rejected,
    };
    tracing::warn!(name, reason = %fault, "task rejected, continuing as a plain call");
    drop(tasks);
    inbox.reject();
    Ok(running.await)
}

impl TaskHandoff for DeferredTask {
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_requested.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(self.client.inbox().decided())
    }

    fn poll_requested(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let pending = self.pending();
        if pending.is_none() {
            return Poll::Pending;
        }
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.is_requested.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn hand_off(&self, rest: CallFuture, context: Arc<Context>) -> CallFuture {
        let Some(mut task) = self.pending().take() else { return rest };
        task.call.context = Some(context);
        let started = start(Weak::clone(&self.tasks), task, rest);
        Box::pin(async move { started.await.unwrap_or_else(Finished::failed) })
    }
}

impl ClientRequester for DeferredTask {
    fn capabilities(&self) -> &str {
        self.requester().capabilities()
    }

    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture {
        self.requester().ask(question, check)
    }

    fn retries_invalid_answers(&self) -> bool {
        self.requester().retries_invalid_answers()
    }

    fn ping(&self) -> AnswerFuture {
        self.requester().ping()
    }

    fn session(&self) -> Option<Arc<dyn SessionPeer>> {
        self.requester().session()
    }

    fn elicitation_session(&self) -> Option<Arc<dyn ElicitationSession>> {
        self.requester().elicitation_session()
    }

    fn once_values(&self) -> &OnceValues {
        self.call_requester.once_values()
    }

    fn poll_suspended(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Vec<u8>, Fault>>> {
        self.requester().poll_suspended(cx)
    }
}

impl CallConnection for DeferredTask {
    fn notify(&self, message: &[u8]) -> bool {
        self.peer().notify(message)
    }

    fn session_level(&self) -> Level {
        self.peer().session_level()
    }

    fn admits_log_message(&self) -> bool {
        self.peer().admits_log_message()
    }

    fn close_sse_stream(&self, retry: Duration) {
        self.peer().close_sse_stream(retry);
    }
}
