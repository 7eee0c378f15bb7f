//! Calls of tools that are tasks, or may become one.

use std::{
    future::ready,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    extension::{self, undeclared},
    handoff::{Deferral, Ticket},
    owner::task_owner,
    runner::Job,
    service::{NewTask, new_id},
    side::{Side, TaskSession},
};
use crate::{
    engine::{
        call::{
            callee::Callee,
            prepare::{
                CallOptions, CallTarget, answer_with, call_info, call_with, check_in_flight, function_context,
                requester,
            },
        },
        layers::Call,
        request::{context::RequestContext, params},
    },
    error::Fault,
    handler::{
        Finished, Input,
        entry::{Run, TaskSupport},
    },
    jsonrpc::raw,
    registry::{Function, Tool},
    revision::Feature,
};

/// How a tool is called.
pub(crate) enum Execution {
    /// As ever.
    Plain,
    /// As a task, which its client wants to keep for a time.
    Task(Option<Duration>),
    /// As a call that may become a task: when its function says so, or at once, if there is room.
    Deferred { at_once: bool },
}

impl Execution {
    /// Decides it by what the tool supports, and what the client asks for or can have.
    ///
    /// # Errors
    ///
    /// The client must not ask for a task, or has to.
    pub(crate) fn of(request: &RequestContext<'_>, tool: &Tool) -> Result<Self, Fault> {
        let support = tool.entry.task;
        let has = |feature| request.has(feature);
        if support == TaskSupport::Forbidden && request.params.task.is_none() {
            Ok(Self::Plain)
        } else if has(Feature::SessionTasks) {
            Self::as_asked_for(request, support)
        } else if has(Feature::TaskExtension) {
            match (support, extension::is_declared(request.params)) {
                (TaskSupport::Forbidden, _) | (TaskSupport::Optional | TaskSupport::Deferred, false) => Ok(Self::Plain),
                (TaskSupport::Required, false) => Err(undeclared()),
                (TaskSupport::Required, true) => Ok(Self::Task(None)),
                (TaskSupport::Optional, true) => Ok(Self::Deferred { at_once: true }),
                (TaskSupport::Deferred, true) => Ok(Self::Deferred { at_once: false }),
            }
        } else {
            Ok(Self::Plain)
        }
    }

    fn as_asked_for(request: &RequestContext<'_>, support: TaskSupport) -> Result<Self, Fault> {
        let refuse = |why: &str| {
            let name = params::string(request.params.name, "name")?;
            Err(Fault::MethodNotFound(format!("tools/call of `{name}` {why}")))
        };
        match (support, request.params.task) {
            // Nobody was told that there are tasks, so that nobody can mean one.
            (TaskSupport::Forbidden, Some(_)) if !request.registry().capabilities().tasks => Ok(Self::Plain),
            (TaskSupport::Forbidden, Some(_)) => refuse("as a task"),
            (TaskSupport::Required, None) => refuse("other than as a task"),
            (_, None) => Ok(Self::Plain),
            (_, Some(task)) => read_ttl(task).map(Self::Task),
        }
    }
}

/// Reads for how long a client wants its task to be kept.
fn read_ttl(task: &str) -> Result<Option<Duration>, Fault> {
    if raw::kind(task) != raw::Kind::Object {
        return Err(Fault::invalid_params("`task` must be an object"));
    }
    let Some(ttl) = params::member(task, "ttl").filter(|ttl| *ttl != "null") else { return Ok(None) };
    let ttl = ttl.parse().ok().filter(|ttl: &u64| *ttl > 0);
    let why = "`task.ttl` must be a whole number of milliseconds above 0";
    ttl.map(|ttl| Some(Duration::from_millis(ttl))).ok_or_else(|| Fault::invalid_params(why))
}

/// Makes a task of a call. The response describes the task.
pub(crate) fn call_as_task(
    request: &RequestContext<'_>,
    item: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    ttl: Option<Duration>,
    out: &mut Vec<u8>,
) -> Result<bool, Fault> {
    let Run::Async(function) = &item.common.run else {
        return call_with(request, item, target, arguments, CallOptions::default(), out);
    };
    check_in_flight(request)?;
    let engine = request.engine();
    let forwards_log = engine.forwards_log;
    let new = NewTask { id: new_id()?, owner: task_owner(request)?, ttl };
    let side = Arc::new(side(request, &new.id));
    let options = CallOptions {
        requester: Some(Arc::clone(&side) as _),
        peer: Some(Arc::clone(&side) as _),
        task_status: Some(Arc::clone(&side) as _),
        handoff: None,
    };
    let uses_context = item.uses_context || forwards_log;
    let context = uses_context.then(|| Arc::new(function_context(request, target.name, options)));
    let encoding = request.encoding();
    // The server's default timeout limits how long a client waits for a response; a task's client does not wait.
    let callee = Callee { name: item.common.name, is_tool: true, timeout: item.common.timeout };
    let layers = engine.layers.around(item);
    let is_layered = layers.is_some();
    let started = match layers {
        Some(next) => {
            let info = call_info(request, item, target, callee, context.clone());
            Ok(next.start(Call::new(info, arguments)))
        }
        None => {
            let input = Input {
                arguments,
                contract: &item.contract,
                states: &engine.states,
                context: context.as_ref(),
                encoding,
                uri: target.uri,
            };
            let entered = context.as_deref().filter(|_| forwards_log);
            callee.start(*function, input, entered, request.id)
        }
    };
    let running = match started {
        Ok(running) => running,
        // A client that asks for a task gets one, even if the call fails before the function runs.
        Err(refusal) if request.has(Feature::SessionTasks) => {
            Box::pin(ready(Finished { body: Vec::new(), outcome: Err(refusal) }))
        }
        Err(refusal) => {
            let start = out.len();
            callee.settle(out, start, encoding, request.id, Err(refusal));
            return Ok(true);
        }
    };
    let job = Job {
        encoding: Arc::clone(encoding),
        id: request.id.to_owned(),
        callee,
        context,
        forwards_log,
        is_layered,
        side,
    };
    let tasks = Arc::clone(&engine.tasks);
    let created = async move { tasks.create(new, job, running).await.map_err(|refused| refused.fault) };
    Ok(answer_with(request, item.common.name, engine.limits.timeout, created, out))
}

/// Calls a function that may become a task.
pub(crate) fn call_deferred(
    request: &RequestContext<'_>,
    item: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    at_once: bool,
    out: &mut Vec<u8>,
) -> Result<bool, Fault> {
    let Some(rounds) = requester(request, target, arguments, item.uses_context || at_once)? else {
        return call_with(request, item, target, arguments, CallOptions::default(), out);
    };
    let engine = request.engine();
    // The task has no id yet. With the extension, nothing that is sent before it exists needs the id.
    let side = Arc::new(side(request, ""));
    let ticket = Ticket {
        tasks: Arc::downgrade(&engine.tasks),
        owner: task_owner(request)?,
        encoding: Arc::clone(request.encoding()),
        id: request.id.to_owned(),
        callee: Callee { name: item.common.name, is_tool: true, timeout: item.common.timeout },
        forwards_log: engine.forwards_log,
        is_layered: engine.layers.around(item).is_some(),
    };
    let outbox = Arc::clone(&request.connection.outbox);
    let deferral = Arc::new(Deferral::new(rounds, outbox, Arc::clone(&side), ticket, at_once));
    let options = CallOptions {
        requester: Some(Arc::clone(&deferral) as _),
        peer: Some(Arc::clone(&deferral) as _),
        task_status: Some(side),
        handoff: Some(deferral),
    };
    call_with(request, item, target, arguments, options, out)
}

fn side(request: &RequestContext<'_>, task: &str) -> Side {
    match request.session().filter(|_| request.has(Feature::SessionTasks)) {
        Some(session) => {
            let encoding = Arc::clone(request.engine().encoding(session.dialect));
            let outbox: Weak<_> = Arc::downgrade(&session.outbox);
            Side::new(&session.capabilities, Some(TaskSession { task: task.to_owned(), outbox, encoding }))
        }
        None => Side::new(request.params.meta.client_capabilities.unwrap_or("{}"), None),
    }
}
