//! How a tool call is executed: as a plain call or as a task.

use std::time::Duration;

use crate::{
    engine::{
        request::{context::RequestContext, params},
        tasks::extension,
    },
    error::Fault,
    handler::entry::TaskSupport,
    jsonrpc::RawJson,
    registry::Tool,
    revision::Feature,
};

/// The way in which a tool call is executed.
pub(crate) enum Execution {
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
    pub(crate) fn of(request: &RequestContext<'_>, tool: &Tool) -> Result<Self, Fault> {
        let support = tool.entry.task;
        if support == TaskSupport::Forbidden && request.params.task.is_none() {
            return Ok(Self::Plain);
        }
        if request.has(Feature::SessionTasks) {
            return Self::of_session(request, support);
        }
        if !request.has(Feature::TaskExtension) {
            return Ok(Self::Plain);
        }
        match (support, extension::is_declared(request.params)) {
            (TaskSupport::Forbidden, _) | (TaskSupport::Optional | TaskSupport::Deferred, false) => Ok(Self::Plain),
            (TaskSupport::Required, false) => Err(extension::undeclared()),
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
