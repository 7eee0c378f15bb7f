//! `completion/complete`.

use std::{borrow::Cow, sync::Arc};

use crate::{
    engine::{
        call::{
            prepare::{admit, check_in_flight, method_call, share, timeout},
            response,
            running::{Completion, CompletionSource},
        },
        layers,
        request::{
            context::{RequestContext, authorize},
            params,
        },
    },
    error::{Fault, excerpt},
    handler::{Call, Completions, Context, Function},
    jsonrpc::{RawJson, raw},
    revision::encode::Object,
};

/// Completes an argument of a prompt or a variable of a resource template.
///
/// See [Completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion).
pub(crate) fn complete(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    request.budgets().admit_completion(request.connection.clock.last())?;
    let (target, referenced) = referenced_function(request)?;
    authorize(request, referenced)?;
    request.operation.set_function(referenced);
    let argument = request.params.member("argument").ok_or_else(|| Fault::invalid_params("`argument` is missing"))?;
    let name = params::string(argument.member("name"), "argument.name")?;
    let value = params::string(argument.member("value"), "argument.value")?;
    let source = CompletionSource::of(referenced, &name)
        .ok_or_else(|| Fault::InvalidParams(format!("`{}` has no argument `{}`", excerpt(&target), excerpt(&name))))?;
    let context = request.params.member("context").filter(|context| !context.is_null());
    check_context(context)?;
    let context = context.map(RawJson::text);
    let next = request.engine().profile.layers.for_function(referenced);
    if let (CompletionSource::Values(values), None) = (&source, &next) {
        let result = Completions::matching(&value, values.iter()).write(request.encoding());
        response::write_result(out, request.id, &result);
        return Ok(());
    }
    check_in_flight(request)?;
    let call = Call {
        function: Some(Arc::clone(referenced)),
        states: request.engine().states.of_function(referenced),
        subject: "completion/complete".into(),
        ..method_call(request, referenced.name.clone(), timeout(request, referenced.common().timeout))
    };
    let call_context = Context::new(share(request, call, source.takes_context(), next.is_some()));
    let permit = admit(request)?;
    let completion = Completion { source, subject: target.into() };
    let running = match next {
        None => completion.complete(&call_context, &value, context),
        Some(next) => {
            let arguments = layered_arguments(argument.text(), context);
            next.start(layers::Call::new(call_context.clone(), &arguments).completing(completion))
        }
    };
    call_context.run_future(request, permit, running, out);
    Ok(())
}

/// Finds the function of the prompt or resource template that `ref` names. Also returns the name or the URI template.
pub(super) fn referenced_function<'a>(
    request: &RequestContext<'a>,
) -> Result<(Cow<'a, str>, &'a Arc<Function>), Fault> {
    let reference = request.params.member("ref").ok_or_else(|| Fault::invalid_params("`ref` is missing"))?;
    let (registry, visible) = (request.registry, request.visible_to());
    match &*params::string(reference.member("type"), "ref.type")? {
        "ref/prompt" => {
            let name = params::string(reference.member("name"), "ref.name")?;
            let prompt = registry.prompts.get(&name).filter(|prompt| visible.sees(prompt));
            match prompt {
                Some(prompt) => Ok((name, prompt)),
                None => Err(Fault::UnknownPrompt(name.into_owned())),
            }
        }
        "ref/resource" => {
            let uri = params::string(reference.member("uri"), "ref.uri")?;
            match registry.reference(&uri, |function| visible.sees(function)) {
                Some(template) => Ok((uri, template)),
                None => Err(Fault::InvalidParams(format!("unknown resource template: {}", excerpt(&uri)))),
            }
        }
        other => {
            let message =
                format!("`ref.type` must be \"ref/prompt\" or \"ref/resource\", but it is {:?}", excerpt(other));
            Err(Fault::InvalidParams(message))
        }
    }
}

/// Checks the arguments that the client has already filled in.
fn check_context(context: Option<RawJson<'_>>) -> Result<(), Fault> {
    let arguments = context.and_then(|context| context.member("arguments")).filter(|arguments| !arguments.is_null());
    for (name, json) in [("context", context), ("context.arguments", arguments)] {
        if json.is_some_and(|json| !json.is_object()) {
            return Err(Fault::InvalidParams(format!("`{name}` must be an object")));
        }
    }
    let mut members = raw::members(arguments.map_or("{}", RawJson::text));
    match members.find(|(_, json)| raw::string(json).is_none()) {
        Some((name, _)) => {
            Err(Fault::InvalidParams(format!("`context.arguments.{}` must be a string", excerpt(&name))))
        }
        None => Ok(()),
    }
}

/// Returns the arguments that layers see: the members of `argument`, and the `context`.
fn layered_arguments(argument: &str, context: Option<&str>) -> String {
    let mut out = Vec::new();
    let mut arguments = Object::begin(&mut out);
    arguments.copy_without(argument, "context");
    if let Some(context) = context {
        arguments.raw("context", context.as_bytes());
    }
    arguments.end();
    String::from_utf8(out).unwrap_or_default()
}
