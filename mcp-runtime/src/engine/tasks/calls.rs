//! `tools/call`: as a plain call, as a task, or as a call that may become a task.

use std::{
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{
    client::{TaskClient, TaskSession},
    methods::task_owner,
    request::{is_declared, undeclared},
    service::DeferredTask,
};
use crate::{
    engine::{
        call::prepare::{answer_with, call_function, call_with, prepare, run, share},
        client_requests::requester,
        layers,
        request::{context::RequestContext, params},
    },
    error::Fault,
    handler::{
        Context, Finished, Function, Input, SharedCall,
        entry::{Handler, TaskSupport},
    },
    jsonrpc::RawJson,
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
    let handler = &function.common().handler;
    if let Handler::Sync(_) = handler {
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
    let started = match next {
        Some(next) => Ok(next.start(layers::Call::new(context.clone(), arguments))),
        None => context.start(handler, Input::new(function, context.call(), Some(&context), arguments)),
    };
    let running = match started {
        Ok(running) => running,
        // A client that requests a task gets one, even if the call fails before the function runs.
        Err(error) if request.has(Feature::SessionTasks) => Box::pin(ready(Finished::failed(error))),
        Err(error) => {
            context.call().fail(request, error, out);
            return Ok(());
        }
    };
    let (tasks, limit) = (Arc::clone(&request.engine().tasks), request.engine().profile.limits.timeout);
    let created = async move {
        let created = tasks.create(owner, ttl, context, client, running).await;
        created.map_err(|rejected| rejected.fault)
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
            (TaskSupport::Forbidden, Some(_)) if !request.registry.capabilities().tasks => Ok(Self::Plain),
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
    let millis = ttl.text().parse().ok().filter(|millis: &u64| *millis > 0);
    let millis = millis.ok_or_else(|| Fault::invalid_params("`task.ttl` must be a positive number of milliseconds"))?;
    Ok(Some(Duration::from_millis(millis)))
}
