//! `completion/complete`.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    engine::{
        call::{
            prepare::{CallOptions, admit, prepare, run_server_fn, server_fn_env},
            response,
        },
        request::{context::RequestContext, params},
    },
    error::Fault,
    handler::{
        CallEnv, CompletionInput, Completions, EarlierArguments, Encoding, Finished, ServerFnOutput,
        entry::{CommonEntry, ServerFnEntry},
    },
    jsonrpc::{raw, write},
    registry::{CompletionSource, Function},
    revision::encode::{self, Object},
};

/// Completes an argument of a prompt or a variable of a resource template.
///
/// See [Completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion).
pub(crate) fn complete(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let referenced = referenced_function(request)?;
    let argument = request.params.member("argument").ok_or_else(|| missing("argument"))?;
    let name = params::string(params::member(argument, "name"), "argument.name")?;
    let value = params::string(params::member(argument, "value"), "argument.value")?;
    match referenced.completion_source(&name) {
        None => Err(unknown_argument(referenced, &name)),
        Some(CompletionSource::Function(function, uses_context)) => {
            let earlier = earlier_arguments(request.params.member("context"));
            let input = CompletionInput { value: Arc::from(&*value), earlier: Arc::new(earlier) };
            complete_with_function(request, referenced.common, function, uses_context, input, out)
        }
        Some(CompletionSource::Values(values)) => {
            let prefix = value.to_lowercase();
            let matches = values.iter().filter(|candidate| candidate.to_lowercase().starts_with(&prefix));
            let result = write_completions(request.encoding(), &Completions::new(matches));
            response::write_result(out, request.id, &result);
            Ok(())
        }
    }
}

/// Finds the function of the prompt or resource template that `ref` names.
fn referenced_function<'a>(request: &RequestContext<'a>) -> Result<&'a Function, Fault> {
    let reference = request.params.member("ref").ok_or_else(|| missing("ref"))?;
    let (registry, visible) = (request.registry, request.visible_to());
    match &*params::string(params::member(reference, "type"), "ref.type")? {
        "ref/prompt" => {
            let name = params::string(params::member(reference, "name"), "ref.name")?;
            let prompt = registry.prompt(&name).filter(|prompt| visible.sees(&prompt.function));
            prompt.map(|prompt| &prompt.function).ok_or_else(|| Fault::UnknownPrompt(name.into_owned()))
        }
        "ref/resource" => {
            let uri = params::string(params::member(reference, "uri"), "ref.uri")?;
            let template = registry.reference(&uri, |function| visible.sees(function));
            template.ok_or_else(|| Fault::InvalidParams(format!("unknown resource template: {uri}")))
        }
        other => {
            let message = format!("`ref.type` must be \"ref/prompt\" or \"ref/resource\", but it is {other:?}");
            Err(Fault::InvalidParams(message))
        }
    }
}

fn missing(name: &str) -> Fault {
    Fault::invalid_params(format!("`{name}` is missing"))
}

fn unknown_argument(function: &Function, name: &str) -> Fault {
    let known: Vec<_> = function.contract.arguments.iter().map(|known| format!("`{}`", known.name)).collect();
    let expected =
        if known.is_empty() { "expected none".to_owned() } else { format!("expected one of {}", known.join(", ")) };
    Fault::InvalidParams(format!("unknown argument `{name}`, {expected}"))
}

/// Completes a value with a function.
fn complete_with_function(
    request: &RequestContext<'_>,
    common: &'static CommonEntry,
    function: &'static ServerFnEntry,
    uses_context: bool,
    input: CompletionInput,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut call = prepare(request, common, "completion/complete", false, uses_context, CallOptions::default())?;
    call.permit = admit(request)?;
    let encoding = Arc::clone(request.encoding());
    let env = CallEnv { completion: Some(input), ..server_fn_env(request, call.context.clone()) };
    let running = Box::pin(async move {
        let completions = match run_server_fn(function, common.blocking, env).await {
            Ok(ServerFnOutput::Completions(completions)) => completions,
            Ok(ServerFnOutput::Resources(_)) => Completions::default(),
            Err(error) => return Finished { body: Vec::new(), outcome: Err(error) },
        };
        Finished { body: write_completions(&encoding, &completions), outcome: Ok(()) }
    });
    call.run_future(running, out);
    Ok(())
}

/// Reads the arguments that the client has already filled in.
fn earlier_arguments(context: Option<&str>) -> EarlierArguments {
    let arguments = context.and_then(|context| params::member(context, "arguments"));
    let strings = arguments.into_iter().flat_map(raw::members);
    let strings = strings.filter_map(|(name, json)| Some((name.into_owned(), raw::string(json)?.into_owned())));
    EarlierArguments(strings.collect::<BTreeMap<_, _>>())
}

/// Writes the result of `completion/complete`.
fn write_completions(encoding: &Encoding, completions: &Completions) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(br#"{"completion":"#);
    let mut completion = Object::begin(&mut out);
    encode::array(completion.key("values"), &completions.values, |out, value| write::string(out, value));
    if let Some(total) = completions.total {
        write::plain(completion.key("total"), &total);
    }
    write::plain(completion.key("hasMore"), &completions.has_more);
    completion.end();
    encoding.end_result(&mut out, Some(&completions.meta));
    out
}
