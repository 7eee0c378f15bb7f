//! The methods that create tasks or are about tasks: `tools/call` as a plain call, as a task, or as a call that may
//! become a task; the `tasks/…` methods; and the notifications about tasks for `subscriptions/listen`.

use std::{
    future::ready,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use serde_json::json;
use tokio::task::JoinSet;

use super::{
    LOG_TARGET,
    client::{TaskClient, TaskSession},
    encode,
    request::{ResultRequest, TaskRequest, decode_responses},
    service::{DeferredTask, TaskOwner},
    store::TaskStore,
    task::{Task, TaskError, TaskKey},
};
use crate::{
    backend::Backoff,
    engine::{
        call::prepare::{admit, answer_with, call_function, call_with, check_in_flight, prepare, run, share},
        client_requests::requester,
        listener::Filter,
        outbox::Outbox,
        request::{
            context::RequestContext,
            params::{self, Method, Params, TASKS_EXTENSION},
            source::{Permit, SenderAccess},
        },
    },
    error::{Fault, excerpt},
    handler::{
        Context, Encoding, Finished, Function, SharedCall,
        entry::{Handler, TaskSupport},
    },
    jsonrpc::RawJson,
    random,
    registry::{cursor_after, last_key, unknown_cursor},
    revision::Feature,
};

/// Calls the function of a tool: as a plain call, as a task, or as a call that may become a task.
///
/// # Errors
///
/// Returns the fault to respond with.
pub(crate) fn call_tool(
    request: &RequestContext<'_>,
    tool: &Arc<Function>,
    arguments: &str,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    match Execution::of(request, tool)? {
        Execution::Plain => call_function(request, tool, tool.name.clone(), arguments, out),
        Execution::Task(ttl) => call_as_task(request, tool, arguments, ttl, out),
        Execution::Deferred { at_once } => call_deferred(request, tool, arguments, at_once, out),
    }
}

/// Runs a call as a task. Responds with the task as soon as it is created.
fn call_as_task(
    request: &RequestContext<'_>,
    function: &Arc<Function>,
    arguments: &str,
    ttl: Option<Duration>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    if let Handler::Sync(_) = function.common().handler {
        return call_with(request, function, function.name.clone(), arguments, None, out);
    }
    let client = Arc::new(task_client(request));
    // The span of the task needs the trace context of the request.
    let is_traced = request.engine().profile.telemetry.is_some();
    let (call, next) = prepare(request, function, function.name.clone(), arguments)?;
    let context = Context::new(SharedCall {
        connection: Arc::clone(&client) as _,
        requester: Some(Arc::clone(&client) as _),
        task: Some(Arc::clone(&client) as _),
        ..share(request, call, function.uses_context || is_traced, next.is_some())
    });
    let owner = task_owner(request)?;
    let running = match context.start(function, next, arguments) {
        Ok(running) => running,
        // A client that requests a task gets one, even if the call fails before the function runs.
        Err(error) if request.has(Feature::SessionTasks) => Box::pin(ready(Finished::failed(error))),
        Err(error) => {
            context.shared().lifetime.complete();
            context.call().fail(request, error, out);
            return Ok(());
        }
    };
    let (tasks, limit) = (Arc::clone(&request.engine().tasks), request.engine().profile.limits.timeout);
    let created = async move {
        let inserted = tasks.insert(owner, ttl, &context, &client).await?;
        Ok(tasks.start(inserted, context, client, running))
    };
    answer_with(request, function.name.clone(), limit, None, created, out);
    Ok(())
}

/// Calls a function that may become a task.
fn call_deferred(
    request: &RequestContext<'_>,
    function: &Arc<Function>,
    arguments: &str,
    at_once: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let name = &function.name;
    let requester = requester(request, function, name, arguments, function.uses_context || at_once)?;
    let Some(requester) = requester else { return call_with(request, function, name.clone(), arguments, None, out) };
    // The task has no id yet. With the extension, no message needs the id before the task exists.
    let client = Arc::new(task_client(request));
    let owner = task_owner(request)?;
    let tasks = Arc::downgrade(&request.engine().tasks);
    let is_traced = request.engine().profile.telemetry.is_some();
    let deferred = DeferredTask::new(owner, Arc::clone(&client), tasks, at_once);
    let (call, next) = prepare(request, function, name.clone(), arguments)?;
    let context = Context::new(SharedCall {
        requester: Some(requester),
        task: Some(client as _),
        handoff: Some(Arc::new(deferred) as _),
        ..share(request, call, function.uses_context || is_traced, next.is_some())
    });
    run(request, function, &context, next, arguments, out)
}

/// Creates the client of a task, with the capabilities that were declared in the session or in the request.
fn task_client(request: &RequestContext<'_>) -> TaskClient {
    match request.session().filter(|_| request.has(Feature::SessionTasks)) {
        Some(session) => {
            let encoding = Arc::clone(request.engine().encoding(session.info.dialect));
            let session_of_task = TaskSession { task_id: OnceLock::new(), session: Arc::downgrade(session), encoding };
            TaskClient::new(&session.info.capabilities, Some(session_of_task))
        }
        None => TaskClient::new(request.params.meta.client_capabilities.map_or("{}", RawJson::text), None),
    }
}

/// The way in which a tool call is executed.
enum Execution {
    /// As a plain call.
    Plain,
    /// As a task, with the TTL that the client requested.
    Task(Option<Duration>),
    /// As a call that becomes a task when its function requests it, or immediately if the task limit allows.
    Deferred { at_once: bool },
}

impl Execution {
    /// Chooses the execution that the tool supports and the client requests or accepts.
    ///
    /// # Errors
    ///
    /// Fails if the tool does not support tasks and the client requests one, or if it requires a task and the client
    /// does not request or accept one.
    fn of(request: &RequestContext<'_>, tool: &Function) -> Result<Self, Fault> {
        let support = tool.task();
        if support == TaskSupport::Forbidden && request.params.task.is_none() {
            return Ok(Self::Plain);
        }
        if request.has(Feature::SessionTasks) {
            return Self::of_session(request, support);
        }
        if !request.has(Feature::TaskExtension) {
            return Ok(Self::Plain);
        }
        match (support, is_declared(request.params)) {
            (TaskSupport::Forbidden, _) | (TaskSupport::Optional | TaskSupport::Deferred, false) => Ok(Self::Plain),
            (TaskSupport::Required, false) => Err(undeclared()),
            (TaskSupport::Required, true) => Ok(Self::Task(None)),
            (TaskSupport::Optional, true) => Ok(Self::Deferred { at_once: true }),
            (TaskSupport::Deferred, true) => Ok(Self::Deferred { at_once: false }),
        }
    }

    /// Chooses the execution in a revision where the client requests tasks.
    fn of_session(request: &RequestContext<'_>, support: TaskSupport) -> Result<Self, Fault> {
        let name = || params::string(request.params.name, "name");
        match (support, request.params.task) {
            // A server that declares no tasks ignores the parameter.
            (TaskSupport::Forbidden, Some(_)) if !request.registry.capabilities.tasks => Ok(Self::Plain),
            (TaskSupport::Forbidden, Some(_)) => {
                Err(Fault::MethodNotFound(format!("tools/call as a task: `{}` does not support tasks", name()?)))
            }
            (TaskSupport::Required, None) => {
                Err(Fault::MethodNotFound(format!("tools/call without `task`: `{}` can only run as a task", name()?)))
            }
            (_, None) => Ok(Self::Plain),
            (_, Some(task)) => decode_ttl(task).map(Self::Task),
        }
    }
}

/// Decodes the TTL in the `task` parameter.
fn decode_ttl(task: RawJson<'_>) -> Result<Option<Duration>, Fault> {
    if !task.is_object() {
        return Err(Fault::invalid_params("`task` must be an object"));
    }
    let Some(ttl) = task.member("ttl").filter(|ttl| !ttl.is_null()) else { return Ok(None) };
    let millis = ttl.text().parse().ok().filter(|millis: &f64| *millis >= 1.0 && millis.fract() == 0.0);
    let millis =
        millis.ok_or_else(|| Fault::invalid_params("`task.ttl` must be a positive whole number of milliseconds"))?;
    Ok(Some(Duration::from_millis(millis as u64)))
}

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| json.member("extensions"));
    let tasks = extensions.and_then(|json| json.member(TASKS_EXTENSION));
    tasks.is_some_and(RawJson::is_object)
}

/// Returns the error for a client that has not declared the extension.
fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { TASKS_EXTENSION: {} } }) }
}

/// Answers a `tasks/…` request.
pub(crate) fn request(method: Method, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    if request.has(Feature::TaskExtension) && !is_declared(request.params) {
        return Err(undeclared());
    }
    check_in_flight(request)?;
    request.budgets().admit_task_request(request.connection.clock.last())?;
    let timeout = request.engine().profile.limits.timeout;
    match method {
        Method::ListTasks => answer(request, method, timeout, None, list(request)?, out),
        Method::TaskResult => {
            let task = task_request(request)?;
            let session = request.session().ok_or_else(|| Fault::MethodNotFound(method.name().to_owned()))?;
            let (session, outbox) = (Arc::clone(session), Arc::clone(&request.connection.outbox));
            let result = ResultRequest { request: task, session, outbox };
            // Unlike the other requests, this one may wait as long as the task exists, even if its response is not read.
            // There is no timeout, since tasks expire.
            answer(request, method, None, admit(request)?, result.wait(), out);
        }
        Method::UpdateTask => {
            let (task, responses) = (task_request(request)?, decode_responses(request.params)?);
            answer(request, method, timeout, None, task.update(responses), out);
        }
        Method::CancelTask => answer(request, method, timeout, None, task_request(request)?.cancel(), out),
        _ => answer(request, method, timeout, None, task_request(request)?.get(), out),
    }
    Ok(())
}

/// Takes the place of the name of a list in the cursors of [`list`].
const TASKS: &str = "task";

/// Lists one page of the sender's tasks, without the tasks whose functions require scopes that the sender lacks.
fn list(request: &RequestContext<'_>) -> Result<impl Future<Output = Result<Vec<u8>, Fault>> + Send + use<>, Fault> {
    let (engine, owner, access) = (request.engine(), owner_name(request)?, request.sender_access());
    let (tasks, encoding) = (Arc::clone(&engine.tasks), Arc::clone(request.encoding()));
    let page_size = engine.profile.limits.page_size;
    let last = |cursor: &str| tasks.store.key(&owner, &last_key(TASKS, cursor)?).ok_or_else(|| unknown_cursor(cursor));
    let after = request.params.cursor()?.as_deref().map(last).transpose()?;
    Ok(async move {
        let (mut page, last) = tasks.store.page(&owner, after.as_ref(), page_size).await?;
        page.retain(|task| access.grants(&task.state.scopes));
        let next = last.map(|last| cursor_after(TASKS, last.id()));
        Ok(encode::list(&encoding, &page, next.as_deref()))
    })
}

/// Answers a request, which is logged when it ends: its sender and its task, but nothing that the task contains.
fn answer(
    request: &RequestContext<'_>,
    method: Method,
    timeout: Option<Duration>,
    permit: Option<Permit>,
    result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
    out: &mut Vec<u8>,
) {
    let sender = tracing::enabled!(target: LOG_TARGET, tracing::Level::INFO).then(|| {
        let session = request.session().and_then(|session| session.id());
        (
            request.principal().map(|principal| excerpt(principal).into_owned()),
            session.map(|id| random::log_id(id).to_owned()),
            // Not every id that a client sends is one of a task.
            request.params.string("taskId").ok().map(|id| id.chars().take(8).collect::<String>()),
        )
    });
    let logged = async move {
        let result = result.await;
        if let Some((principal, session, task)) = &sender {
            let (principal, session, task) = (principal.as_deref(), session.as_deref(), task.as_deref());
            let reason = result.as_ref().err().map(tracing::field::display);
            let outcome = if reason.is_some() { "refused" } else { "answered" };
            let method = method.name();
            tracing::info!(target: LOG_TARGET, method, task, principal, session, reason, "task request {outcome}");
        }
        result
    };
    answer_with(request, method.name(), timeout, permit, logged, out);
}

fn task_request(request: &RequestContext<'_>) -> Result<TaskRequest, Fault> {
    let tasks = Arc::clone(&request.engine().tasks);
    Ok(TaskRequest {
        key: tasks.store.key(&owner_name(request)?, &request.params.string("taskId")?),
        tasks,
        encoding: Arc::clone(request.encoding()),
        access: request.sender_access(),
    })
}

/// Returns the owner of the tasks that a request creates, and the peer that they are counted for: its principal, or else
/// the network of its address, so that no sender gets more tasks by opening more sessions. If the address is unknown, the
/// peer is the owner.
///
/// # Errors
///
/// Returns a fault if no random id can be generated for the session.
fn task_owner(request: &RequestContext<'_>) -> Result<TaskOwner, Fault> {
    let name = owner_name(request)?;
    let peer = match request.principal() {
        Some(principal) => Some(format!("principal:{principal}")),
        None => request.connection.source.as_ref().and_then(|sender| sender.sender_key()),
    };
    Ok(TaskOwner { peer: peer.unwrap_or_else(|| name.clone()), name })
}

/// Returns the name of the owner of the tasks of a request: its principal or, if the transport does not know one, its session.
/// Without a session the owner is empty, and knowing the id of a task is enough to use it. Tasks of sessions and tasks of the
/// extension are separate, since a result is stored in the encoding of the revision that requested it.
///
/// # Errors
///
/// Returns a fault if no random id can be generated for the session.
fn owner_name(request: &RequestContext<'_>) -> Result<String, Fault> {
    let has_session_tasks = request.has(Feature::SessionTasks);
    if let Some(principal) = request.principal() {
        let kind = if has_session_tasks { "session-principal" } else { "principal" };
        return Ok(format!("{kind}:{principal}"));
    }
    let Some(session) = request.session().filter(|_| has_session_tasks) else { return Ok(String::new()) };
    if session.id().is_none() {
        let no_id = || Fault::internal("the server cannot generate random ids");
        // If two requests race, the first id wins.
        session.set_id(&random::id().ok_or_else(no_id)?.into());
    }
    Ok(format!("session:{}", session.id().unwrap_or_default()))
}

/// Checks that a client that subscribes to tasks has declared the extension.
///
/// # Errors
///
/// Returns the fault that names the extension.
pub(crate) fn check_filter(request: &RequestContext<'_>, filter: &Filter) -> Result<(), Fault> {
    let is_refused = request.registry.capabilities.tasks && filter.tasks.is_some() && !is_declared(request.params);
    if is_refused { Err(undeclared()) } else { Ok(()) }
}

/// The tokio tasks that send notifications about the tasks of a subscription. Dropping it aborts them.
pub(crate) type TaskWatch = JoinSet<()>;

/// Prepares to notify a `subscriptions/listen` request of the current state of each task that its filter names, and of
/// every change to it. Removes ids from the filter that belong to no task of the subscriber, or to one for whose results it
/// lacks scopes. With a shared backend, which would have to be awaited, such an id may stay, and causes no notifications.
///
/// # Errors
///
/// Fails if no random id can be generated for the session.
pub(crate) fn watch<'a, 'b>(
    request: &'a RequestContext<'b>,
    filter: &mut Filter,
) -> Result<Option<impl FnOnce() -> TaskWatch + use<'a, 'b>>, Fault> {
    let Some(ids) = filter.tasks.as_mut().filter(|ids| !ids.is_empty()) else { return Ok(None) };
    let owner = owner_name(request)?;
    let (store, access) = (&request.engine().tasks.store, request.sender_access());
    let mut keys = Vec::new();
    ids.retain(|id| {
        let Some(key) = store.key(&owner, id) else { return false };
        let may_be_read =
            store.load_now(&key).is_none_or(|task| task.is_some_and(|it| access.grants(&it.state.scopes)));
        keys.extend(Some(key).filter(|_| may_be_read));
        may_be_read
    });
    Ok(Some(move || {
        let subscription_id: Arc<str> = request.id.as_json().into();
        let watched = keys.into_iter().map(|key| WatchedTask {
            store: Arc::clone(store),
            key,
            access: access.clone(),
            outbox: Arc::downgrade(&request.connection.outbox),
            encoding: Arc::clone(request.encoding()),
            subscription_id: Arc::clone(&subscription_id),
        });
        watched.map(WatchedTask::run).collect()
    }))
}

/// A task that a subscription covers.
struct WatchedTask {
    store: Arc<TaskStore>,
    key: TaskKey,
    /// The scopes that decide what the subscriber may read.
    access: SenderAccess,
    outbox: Weak<Outbox>,
    encoding: Arc<Encoding>,
    /// The id of the subscription, as JSON.
    subscription_id: Arc<str>,
}

impl WatchedTask {
    /// Sends the current state of the task, then every change to it. If the backend fails, continues when it is back.
    async fn run(self) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.try_run(&mut backoff).await {
            if backoff.is_reset() {
                // Not a warning: each client may wait for many tasks.
                tracing::debug!(%error, "the backend failed, retrying to send notifications about a task");
            }
            backoff.wait().await;
        }
    }

    /// Loads the task, and records that this process waits for its changes.
    async fn load(&self) -> Result<Option<Task>, TaskError> {
        match self.store.load(&self.key).await? {
            Some(task) if self.access.grants(&task.state.scopes) => self.store.begin_watching(task).await,
            _ => Ok(None),
        }
    }

    async fn try_run(&self, backoff: &mut Backoff) -> Result<(), TaskError> {
        let mut changes = self.store.watch(&self.key).await;
        let mut sent_version = None;
        while let Some(task) = self.load().await? {
            backoff.reset();
            let Some(outbox) = self.outbox.upgrade() else { break };
            if sent_version != Some(task.state.version) {
                let outcome = self.store.outcome(&task).await?;
                let notification =
                    encode::task_notification(&self.encoding, &task, outcome.as_deref(), &self.subscription_id);
                let sent = outbox.offer(&notification);
                drop(outbox);
                if let Err(drained) = sent {
                    // The task may have changed by the time the outbox has room, so it is loaded again.
                    drained.await;
                    continue;
                }
                sent_version = Some(task.state.version);
            }
            if task.state.status.is_final() {
                break;
            }
            changes.changed(&task).await;
        }
        Ok(())
    }
}
