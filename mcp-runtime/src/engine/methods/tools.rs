//! `tools/call`.

use crate::{
    engine::{
        request::{
            context::{RequestContext, authorize},
            params,
        },
        tasks,
    },
    error::Fault,
    handler::Function,
    jsonrpc::raw,
    revision::Feature,
};

/// Calls the function of a tool: as a plain call, as a task, or as a call that may become a task.
///
/// See [Tools](https://modelcontextprotocol.io/specification/2025-11-25/server/tools).
pub(crate) fn call_tool(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(tool) = request.registry.tool(&name).filter(|tool| visible.sees(tool)) else {
        return Err(Fault::UnknownTool(name.into_owned()));
    };
    authorize(request, tool)?;
    let arguments = request.params.arguments()?;
    check_headers(request, tool, arguments)?;
    tasks::call_tool(request, tool, arguments, out)
}

/// Compares the arguments that the transport repeats in headers with the arguments in the message.
fn check_headers(request: &RequestContext<'_>, tool: &Function, arguments: &str) -> Result<(), Fault> {
    let source = request.connection.source.as_ref().filter(|_| request.has(Feature::RequestMeta));
    let Some(source) = source.filter(|_| !tool.contract.headers().is_empty()) else { return Ok(()) };
    let value = |path: &[String]| path.iter().try_fold(arguments, |json, name| raw::member(json, name));
    let mirrored = tool.contract.headers().iter().map(|header| (header.name.as_str(), value(&header.path)));
    source.check_arguments(&mirrored.collect::<Vec<_>>())
}
