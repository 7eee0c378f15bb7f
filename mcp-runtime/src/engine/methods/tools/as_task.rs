//! Tool calls that are tasks or may become tasks.

use std::{
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    engine::{
        call::{
            callee::{AsyncFn, Callee},
            prepare::{
                CallOptions, CallTarget, answer_with, call_info, call_with, check_in_flight, function_context,
                requester,
            },
        },
        layers::Call,
        methods::tasks::task_owner,
        request::context::RequestContext,
        tasks::{
            client::{TaskClient, TaskSession},
            handoff::{DeferredTask, PendingTask},
            runner::Job,
            service::NewTask,
        },
    },
    error::Fault,
    handler::{CallFuture, Context, Finished, HandlerError, Input, entry::Handler},
    jsonrpc::RawJson,
    registry::Function,
    revision::Feature,
};

/// Runs a call as a task. Responds with the task as soon as it is created.
pub(crate) fn call_as_task(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    ttl: Option<Duration>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let Handler::Async(async_fn) = function.common.handler else {
        return call_with(request, function, target, arguments, CallOptions::default(), out);
    };
    check_in_flight(request)?;
    request.span.record("entry", function.name);
    let engine = request.engine();
    let scopes = function.scopes.as_deref().cloned().unwrap_or_default();
    let new = NewTask { owner: task_owner(request)?, scopes, ttl, argument_bytes: arguments.len() };
    let client = Arc::new(task_client(request));
    let options = CallOptions {
        requester: Some(Arc::clone(&client) as _),
        peer: Some(Arc::clone(&client) as _),
        task_status: Some(Arc::clone(&client) as _),
        handoff: None,
        scopes: function.scopes.clone(),
    };
    let uses_context = function.uses_context || engine.forwards_log;
    let context = uses_context.then(|| Arc::new(function_context(request, target.name, options)));
    // The default timeout of the server limits how long a client waits, but the client of a task does not wait.
    let callee = Callee { name: function.name, kind: Some(function.kind), timeout: function.common.timeout };
    let (started, is_layered) = start(request, function, target, arguments, async_fn, callee, context.as_ref());
    let running = match started {
        Ok(running) => running,
        // A client that requests a task gets one, even if the call fails before the function runs.
        Err(error) if request.has(Feature::SessionTasks) => {
            Box::pin(ready(Finished { body: Vec::new(), outcome: Err(error) }))
        }
        Err(error) => {
            let start = out.len();
            if let Some(fault) = callee.end_response(out, start, request.encoding(), request.id, Err(error)) {
                request.connection.outbox.set_fault(fault);
            }
            return Ok(());
        }
    };
    let job = Job {
        encoding: Arc::clone(request.encoding()),
        id: request.id.to_owned(),
        callee,
        context,
        forwards_log: engine.forwards_log,
        is_layered,
        client,
    };
    let tasks = Arc::clone(&engine.tasks);
    let created = async move { tasks.create(new, job, running).await.map_err(|rejected| rejected.fault) };
    answer_with(request, function.name, engine.limits.timeout, None, created, out);
    Ok(())
}

/// Starts the function of a task, through the layers that apply to it. Also returns whether it is wrapped, since a layer
/// applies or the check of its arguments may take long.
fn start(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    async_fn: AsyncFn,
    callee: Callee,
    context: Option<&Arc<Context>>,
) -> (Result<CallFuture, HandlerError>, bool) {
    let engine = request.engine();
    if let Some(next) = engine.layers.for_call(function, arguments) {
        let info = call_info(request, function, target, callee, context.cloned());
        return (Ok(next.start(Call::new(info, arguments))), true);
    }
    let input = Input {
        arguments,
        contract: &function.contract,
        violations: None,
        states: &engine.states,
        context,
        encoding: request.encoding(),
        uri: target.uri,
    };
    let log_context = context.map(|context| &**context).filter(|_| engine.forwards_log);
    (callee.start(async_fn, input, log_context, request.id), false)
}

/// Calls a function that may become a task.
pub(crate) fn call_deferred(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    at_once: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let Some(call_requester) = requester(request, target, arguments, function.uses_context || at_once)? else {
        return call_with(request, function, target, arguments, CallOptions::default(), out);
    };
    let engine = request.engine();
    // The task has no id yet. With the extension, no message needs the id before the task exists.
    let client = Arc::new(task_client(request));
    let pending = PendingTask {
        tasks: Arc::downgrade(&engine.tasks),
        owner: task_owner(request)?,
        scopes: function.scopes.clone(),
        encoding: Arc::clone(request.encoding()),
        id: request.id.to_owned(),
        callee: Callee { name: function.name, kind: Some(function.kind), timeout: function.common.timeout },
        forwards_log: engine.forwards_log,
        is_layered: engine.layers.for_call(function, arguments).is_some(),
        argument_bytes: arguments.len(),
    };
    let outbox = Arc::clone(&request.connection.outbox);
    let deferred = Arc::new(DeferredTask::new(call_requester, outbox, Arc::clone(&client), pending, at_once));
    let options = CallOptions {
        requester: Some(Arc::clone(&deferred) as _),
        peer: Some(Arc::clone(&deferred) as _),
        task_status: Some(client),
        handoff: Some(deferred),
        scopes: None,
    };
    call_with(request, function, target, arguments, options, out)
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
