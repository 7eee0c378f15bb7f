//! `prompts/get`.

use crate::{
    engine::{
        call::prepare::CallRequest,
        request::{access::authorize, context::RequestContext, params},
    },
    error::Fault,
    excerpt::excerpt,
    handler::{entry::Hints, from_strings},
    jsonrpc::raw,
};

/// Calls the function of a prompt.
///
/// See [Prompts](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts).
pub(crate) fn get(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(prompt) = request.registry.prompt(&name).filter(|prompt| visible.sees(&prompt.function)) else {
        return Err(Fault::UnknownPrompt(name.into_owned()));
    };
    authorize(request, &prompt.function)?;
    let mut strings = Vec::new();
    for (argument, json) in raw::members(request.params.arguments()?) {
        let Some(text) = raw::string(json) else {
            let (argument, json) = (excerpt(&argument), excerpt(json));
            let message = format!("the argument `{argument}` of a prompt must be a string, but it is {json}");
            return Err(Fault::InvalidParams(message));
        };
        strings.push((argument, text));
    }
    let arguments = from_strings(&prompt.function.contract, strings);
    let (function, hints) = (&prompt.function, Hints::default());
    let arguments = &arguments;
    CallRequest { request, function, method: "prompts/get", name: &name, uri: "", hints, arguments }.call(out)
}
