//! `tools/call`.

mod as_task;
mod execution;

use self::{
    as_task::{call_as_task, call_deferred},
    execution::Execution,
};
use crate::{
    engine::{
        call::prepare::CallRequest,
        request::{access::authorize, context::RequestContext, params},
    },
    error::Fault,
    jsonrpc::raw,
    registry::Tool,
    revision::Feature,
};

/// Calls the function of a tool: as a plain call, as a task, or as a call that may become a task.
///
/// See [Tools](https://modelcontextprotocol.io/specification/2025-11-25/server/tools).
pub(crate) fn call_tool(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(tool) = request.registry.tool(&name).filter(|tool| visible.sees(&tool.function)) else {
        return Err(Fault::UnknownTool(name.into_owned()));
    };
    authorize(request, &tool.function)?;
    let arguments = request.params.arguments()?;
    check_headers(request, tool, arguments)?;
    let (function, hints) = (&tool.function, tool.entry.hints);
    let target = CallRequest { request, function, method: "tools/call", name: &name, uri: "", hints, arguments };
    match Execution::of(request, tool)? {
        Execution::Plain => target.call(out),
        Execution::Task(ttl) => call_as_task(&target, ttl, out),
        Execution::Deferred { at_once } => call_deferred(&target, at_once, out),
    }
}

/// Compares the arguments that the transport repeats in headers with those in the message.
fn check_headers(request: &RequestContext<'_>, tool: &Tool, arguments: &str) -> Result<(), Fault> {
    let Some(source) = request.connection.source.as_ref().filter(|_| !tool.headers.is_empty()) else { return Ok(()) };
    if !request.has(Feature::RequestMeta) {
        return Ok(());
    }
    let value = |path: &[String]| path.iter().try_fold(arguments, |json, name| raw::member(json, name));
    let mirrored = tool.headers.iter().map(|header| (header.name.as_str(), value(&header.path)));
    source.check_arguments(&mirrored.collect::<Vec<_>>())
}
