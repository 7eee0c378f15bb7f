//! Tool calls that are tasks or may become tasks.

use std::{
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    engine::{
        call::prepare::{CallRequest, answer_with},
        layers::Call,
        methods::tasks::task_owner,
        request::context::RequestContext,
        tasks::{
            client::{TaskClient, TaskSession},
            handoff::DeferredTask,
            service::NewTask,
        },
    },
    error::Fault,
    handler::{ContextParts, Finished, entry::Handler},
    jsonrpc::RawJson,
    revision::Feature,
};

/// Runs a call as a task. Responds with the task as soon as it is created.
pub(crate) fn call_as_task(target: &CallRequest<'_>, ttl: Option<Duration>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let CallRequest { request, function, arguments, .. } = *target;
    let Handler::Async(async_fn) = function.common.handler else { return target.call_with(None, out) };
    let client = Arc::new(task_client(request));
    let (mut call, next) = target.prepare(false, |parts| ContextParts {
        requester: Some(Arc::clone(&client) as _),
        peer: Arc::clone(&client) as _,
        task_status: Some(Arc::clone(&client) as _),
        ..parts
    })?;
    // The default timeout of the server limits how long a client waits, but the client of a task does not wait.
    call.timeout = function.common.timeout;
    let owner = task_owner(request)?;
    let started = match next {
        Some(next) => Ok(next.start(Call::new(target.info(&call), arguments))),
        None => call.start(async_fn, target.input(&call)),
    };
    let running = match started {
        Ok(running) => running,
        // A client that requests a task gets one, even if the call fails before the function runs.
        Err(error) if request.has(Feature::SessionTasks) => Box::pin(ready(Finished::failed(error))),
        Err(error) => {
            call.fail(request.connection, error, out);
            return Ok(());
        }
    };
    let (call, scopes) = (call.to_owned(), function.scopes.clone());
    let new = NewTask { owner, scopes, ttl, argument_bytes: arguments.len(), call, client };
    let (tasks, limit) = (Arc::clone(&request.engine().tasks), request.engine().profile.limits.timeout);
    let created = async move { tasks.create(new, running).await.map_err(|rejected| rejected.fault) };
    answer_with(request, function.name, limit, None, created, out);
    Ok(())
}

/// Calls a function that may become a task.
pub(crate) fn call_deferred(target: &CallRequest<'_>, at_once: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let CallRequest { request, function, arguments, .. } = *target;
    let Some(call_requester) = target.requester(function.uses_context || at_once)? else {
        return target.call_with(None, out);
    };
    // The task has no id yet. With the extension, no message needs the id before the task exists.
    let client = Arc::new(task_client(request));
    let owner = task_owner(request)?;
    let outbox = Arc::clone(&request.connection.outbox);
    let tasks = Arc::downgrade(&request.engine().tasks);
    let deferred = Arc::new(DeferredTask::new(call_requester, outbox, Arc::clone(&client), tasks, at_once));
    let (call, next) = target.prepare(true, |parts| ContextParts {
        requester: Some(Arc::clone(&deferred) as _),
        peer: Arc::clone(&deferred) as _,
        task_status: Some(Arc::clone(&client) as _),
        handoff: Some(Arc::clone(&deferred) as _),
        ..parts
    })?;
    let mut task_call = call.to_owned();
    task_call.timeout = function.common.timeout;
    // The context refers to the deferred task, which receives the context when it is handed off.
    task_call.context = None;
    let (scopes, argument_bytes) = (function.scopes.clone(), arguments.len());
    deferred.set_task(NewTask { owner, scopes, ttl: None, argument_bytes, call: task_call, client });
    target.run(&call, next, out)
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
