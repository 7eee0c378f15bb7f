//! `tasks/get`, `tasks/list`, `tasks/result`, `tasks/update` and `tasks/cancel`.

use std::sync::Arc;

use super::{
    LOG_TARGET,
    request::{TaskRequest, decode_cursor, decode_responses, is_declared, list as list_page, undeclared},
    result::{QuestionStream, ResultRequest},
    service::TaskOwner,
    watch::{TaskWatch, watch_tasks},
};
use crate::{
    engine::{
        call::prepare::{admit, answer_with, check_in_flight},
        listener::Filter,
        request::{context::RequestContext, params::Method},
    },
    error::Fault,
    excerpt::excerpt,
    random,
    revision::Feature,
};

/// Answers a `tasks/…` request.
pub(crate) fn request(method: Method, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    if request.has(Feature::TaskExtension) && !is_declared(request.params) {
        return Err(undeclared());
    }
    check_in_flight(request)?;
    request.budgets().admit_task_request(request.connection.clock.last())?;
    match method {
        Method::ListTasks => {
            let (engine, owner, access) = (request.engine(), owner_name(request)?, request.sender_access());
            let (tasks, encoding) = (Arc::clone(&engine.tasks), Arc::clone(request.encoding()));
            let after = request.params.cursor()?.map(|cursor| decode_cursor(&tasks, &cursor, &owner)).transpose()?;
            let page_size = engine.profile.limits.page_size;
            let page = async move { list_page(&tasks, &encoding, (&owner, &access), after.as_ref(), page_size).await };
            answer(request, method, page, out);
        }
        Method::TaskResult => result(request, out)?,
        Method::UpdateTask => {
            let (task, responses) = (task_request(request)?, decode_responses(request.params)?);
            answer(request, method, task.update(responses), out);
        }
        Method::CancelTask => answer(request, method, task_request(request)?.cancel(), out),
        _ => answer(request, method, task_request(request)?.get(), out),
    }
    Ok(())
}

/// Answers a request that takes as long as a client waits.
fn answer(
    request: &RequestContext<'_>,
    method: Method,
    result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
    out: &mut Vec<u8>,
) {
    answer_with(
        request,
        method.name(),
        request.engine().profile.limits.timeout,
        None,
        logged(request, method, result),
        out,
    );
}

/// Logs a request about tasks when it ends: its sender and its task, but nothing that the task contains.
fn logged(
    request: &RequestContext<'_>,
    method: Method,
    result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
) -> impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static {
    let sender = tracing::enabled!(target: LOG_TARGET, tracing::Level::INFO).then(|| {
        let session = request.session().and_then(|session| session.id());
        (
            request.principal().map(|principal| excerpt(principal).into_owned()),
            session.map(|id| random::log_id(id).to_owned()),
            // Not every id that a client sends is one of a task.
            request.params.string("taskId").ok().map(|id| id.chars().take(8).collect::<String>()),
        )
    });
    async move {
        let result = result.await;
        if let Some((principal, session, task)) = &sender {
            let (principal, session, task) = (principal.as_deref(), session.as_deref(), task.as_deref());
            match &result {
                Ok(_) => {
                    tracing::info!(target: LOG_TARGET, method = method.name(), task, principal, session, "task request answered")
                }
                Err(fault) => {
                    let reason = tracing::field::display(fault);
                    tracing::info!(target: LOG_TARGET, method = method.name(), task, principal, session, reason, "task request refused");
                }
            }
        }
        result
    }
}

/// Answers `tasks/result` when the task ends. There is no timeout, since tasks expire.
fn result(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let task = task_request(request)?;
    let method = Method::TaskResult;
    let session = request.session().ok_or_else(|| Fault::MethodNotFound(method.name().to_owned()))?;
    let stream = QuestionStream { session: Arc::clone(session), outbox: Arc::clone(&request.connection.outbox) };
    let result = ResultRequest { request: task, stream };
    // Unlike the other requests, this one may wait as long as the task exists, even if its response is not read.
    let permit = admit(request)?;
    answer_with(request, method.name(), None, permit, logged(request, method, result.wait()), out);
    Ok(())
}

fn task_request(request: &RequestContext<'_>) -> Result<TaskRequest, Fault> {
    let tasks = Arc::clone(&request.engine().tasks);
    Ok(TaskRequest {
        key: tasks.store().key(&owner_name(request)?, &request.params.string("taskId")?),
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
pub(super) fn task_owner(request: &RequestContext<'_>) -> Result<TaskOwner, Fault> {
    let name = owner_name(request)?;
    let sender = request.connection.source.as_ref().filter(|_| request.principal().is_none());
    let peer = sender.and_then(|sender| sender.sender_key()).unwrap_or_else(|| name.clone());
    Ok(TaskOwner { name, peer })
}

/// Returns the name of the owner of the tasks of a request: its principal or, if the transport does not know one, its session.
/// Without a session the owner is empty, and knowing the id of a task is enough to use it.
///
/// # Errors
///
/// Returns a fault if no random id can be generated for the session.
fn owner_name(request: &RequestContext<'_>) -> Result<String, Fault> {
    if let Some(principal) = request.principal() {
        return Ok(format!("principal:{principal}"));
    }
    let session = request.session().filter(|_| request.has(Feature::SessionTasks));
    let Some(session) = session else { return Ok(String::new()) };
    if session.id().is_none() {
        let no_id = || Fault::internal("the server cannot generate random ids");
        // If two requests race, the first id wins.
        session.set_id(&random::id().ok_or_else(no_id)?.into());
    }
    Ok(format!("session:{}", session.id().unwrap_or_default()))
}

/// Prepares to notify a `subscriptions/listen` request of changes to the tasks that its filter names.
///
/// # Errors
///
/// Fails if no random id can be generated for the session.
pub(crate) fn watch(
    request: &RequestContext<'_>,
    filter: &Filter,
) -> Result<Option<impl FnOnce() -> TaskWatch>, Fault> {
    let Some(ids) = filter.tasks.clone().filter(|ids| !ids.is_empty()) else { return Ok(None) };
    let owner = owner_name(request)?;
    Ok(Some(move || {
        let (store, access) = (request.engine().tasks.store(), request.sender_access());
        watch_tasks(store, (&owner, &access), ids, &request.connection.outbox, request.encoding(), request.id)
    }))
}

/// Checks that a client that subscribes to tasks has declared the extension.
///
/// # Errors
///
/// Returns the fault that names the extension.
pub(crate) fn check_filter(request: &RequestContext<'_>, filter: &Filter) -> Result<(), Fault> {
    let is_refused = request.registry.capabilities().tasks && filter.tasks.is_some() && !is_declared(request.params);
    if is_refused { Err(undeclared()) } else { Ok(()) }
}
