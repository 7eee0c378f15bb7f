//! `tasks/get`, `tasks/list`, `tasks/result`, `tasks/update` and `tasks/cancel`.

use std::sync::Arc;

use crate::{
    engine::{
        call::prepare::{answer_with, check_in_flight},
        request::context::RequestContext,
        tasks::{
            extension,
            inquiry::{self, Inquiry, read_answers, read_cursor},
            owner::task_owner,
            result::{Awaiting, Questioning},
        },
    },
    error::Fault,
    revision::Feature,
};

/// Answers a `tasks/…` request.
pub(crate) fn request(method: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let (in_session, by_extension) = (request.has(Feature::SessionTasks), request.has(Feature::TaskExtension));
    let is_supported = match method {
        "tasks/get" | "tasks/cancel" => in_session || by_extension,
        "tasks/list" | "tasks/result" => in_session,
        "tasks/update" => by_extension,
        _ => false,
    };
    if !is_supported {
        return Err(Fault::MethodNotFound(method.to_owned()));
    }
    if by_extension && !extension::is_declared(request.params) {
        return Err(extension::undeclared());
    }
    check_in_flight(request)?;
    match method {
        "tasks/list" => list(request, out),
        "tasks/result" => result(request, out),
        "tasks/update" => update(request, out),
        "tasks/cancel" => cancel(request, out),
        _ => get(request, out),
    }
}

fn get(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let inquiry = inquiry(request)?;
    Ok(answer_with(request, "tasks/get", request.engine().limits.timeout, inquiry.get(), out))
}

fn list(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let (engine, owner) = (request.engine(), task_owner(request)?);
    let (tasks, encoding) = (Arc::clone(&engine.tasks), Arc::clone(request.encoding()));
    let after = request.params.cursor()?.map(|cursor| read_cursor(&cursor)).transpose()?;
    let most = engine.limits.page;
    let page = async move { inquiry::list(&tasks, &encoding, &owner, after, most).await };
    Ok(answer_with(request, "tasks/list", engine.limits.timeout, page, out))
}

/// Waits for a task to end. There is no timeout, since tasks expire.
fn result(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let inquiry = inquiry(request)?;
    let Some(session) = request.session() else { return Err(Fault::MethodNotFound("tasks/result".to_owned())) };
    let questioning = Questioning {
        questions: Arc::clone(&session.questions),
        outbox: Arc::clone(&request.connection.outbox),
        most: request.engine().limits.in_flight,
    };
    let awaiting = Awaiting { inquiry, questioning };
    Ok(answer_with(request, "tasks/result", None, awaiting.result(), out))
}

fn update(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let (inquiry, answers) = (inquiry(request)?, read_answers(request.params)?);
    Ok(answer_with(request, "tasks/update", request.engine().limits.timeout, inquiry.update(answers), out))
}

fn cancel(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let inquiry = inquiry(request)?;
    Ok(answer_with(request, "tasks/cancel", request.engine().limits.timeout, inquiry.cancel(), out))
}

fn inquiry(request: &RequestContext<'_>) -> Result<Inquiry, Fault> {
    Ok(Inquiry {
        id: request.params.string("taskId")?.into_owned(),
        tasks: Arc::clone(&request.engine().tasks),
        encoding: Arc::clone(request.encoding()),
        owner: task_owner(request)?,
    })
}
