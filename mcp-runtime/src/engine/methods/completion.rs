//! `completion/complete`.

use std::{borrow::Cow, collections::BTreeMap, future::ready, sync::Arc};

use crate::{
    engine::{
        call::{
            prepare::{CallRequest, admit, context_parts, prepare, run_server_fn, server_fn_env},
            running,
        },
        layers::{Call, CallInfo, CallKind, CalledFunction},
        request::{
            context::{RequestContext, authorize},
            params,
        },
    },
    error::Fault,
    excerpt::excerpt,
    handler::{
        CallEnv, CallFuture, CompletionInput, Completions, Context, EarlierArguments, Encoding, Finished,
        ServerFnOutput, StateMap, entry::Hints,
    },
    jsonrpc::{RawJson, raw},
    registry::{CompletionSource, Function},
    revision::encode::Object,
};

/// Completes an argument of a prompt or a variable of a resource template.
///
/// See [Completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion).
pub(crate) fn complete(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    request.connection.flow.admit_completion(request.connection.clock.last())?;
    let (target, referenced) = referenced_function(request)?;
    authorize(request, referenced)?;
    let argument = request.params.member("argument").ok_or_else(|| missing("argument"))?;
    let name = params::string(argument.member("name"), "argument.name")?;
    let value = params::string(argument.member("value"), "argument.value")?;
    let source = referenced
        .completion_source(&name)
        .ok_or_else(|| Fault::InvalidParams(format!("`{}` has no argument `{}`", excerpt(&target), excerpt(&name))))?;
    let context = request.params.member("context").map(RawJson::text);
    let next = request.engine().profile.layers.for_function(referenced);
    if let (CompletionSource::Values(values), None) = (&source, &next) {
        let result = Completions::matching(&value, values.iter()).write(request.encoding());
        running::write_result(out, request.id, &result);
        return Ok(());
    }
    let uses_context = matches!(source, CompletionSource::Function(_, true));
    let method = "completion/complete";
    let context_of_call = || context_parts(request, method);
    let mut call = prepare(request, (referenced.name, referenced.common), None, uses_context, context_of_call)?;
    call.is_layered = next.is_some();
    let permit = admit(request)?;
    let completer = Completer {
        source,
        is_blocking: referenced.common.blocking,
        states: Arc::clone(&request.engine().states),
        context: call.context.clone(),
        encoding: Arc::clone(request.encoding()),
    };
    let Some(next) = next else {
        call.run_future(request, permit, completer.complete(&value, context), out);
        return Ok(());
    };
    let (hints, arguments) = (Hints::default(), &layered_arguments(argument.text(), context));
    let target = CallRequest { request, function: referenced, method, name: &target, uri: "", hints, arguments };
    let info = CallInfo {
        kind: CallKind::Completion,
        uses_context,
        function: CalledFunction::Completion(Box::new(move |arguments| completer.complete_layered(arguments))),
        ..target.info(&call)
    };
    call.run_future(request, permit, next.start(Call::new(info, arguments)), out);
    Ok(())
}

/// Finds the function of the prompt or resource template that `ref` names. Also returns the name or the URI template.
pub(super) fn referenced_function<'a>(request: &RequestContext<'a>) -> Result<(Cow<'a, str>, &'a Function), Fault> {
    let reference = request.params.member("ref").ok_or_else(|| missing("ref"))?;
    let (registry, visible) = (request.registry, request.visible_to());
    match &*params::string(reference.member("type"), "ref.type")? {
        "ref/prompt" => {
            let name = params::string(reference.member("name"), "ref.name")?;
            let prompt = registry.prompt(&name).filter(|prompt| visible.sees(&prompt.function));
            match prompt {
                Some(prompt) => Ok((name, &prompt.function)),
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

fn missing(name: &str) -> Fault {
    Fault::invalid_params(format!("`{name}` is missing"))
}

/// Returns the arguments that layers see: the members of `argument`, and the `context`.
fn layered_arguments(argument: &str, context: Option<&str>) -> String {
    let mut out = Vec::new();
    let mut arguments = Object::begin(&mut out);
    for (name, value) in raw::members(argument).filter(|(name, _)| name != "context") {
        arguments.raw(&name, value.as_bytes());
    }
    if let Some(context) = context {
        arguments.raw("context", context.as_bytes());
    }
    arguments.end();
    String::from_utf8(out).unwrap_or_default()
}

/// Completes the values of an argument.
struct Completer {
    source: CompletionSource,
    is_blocking: bool,
    states: Arc<StateMap>,
    context: Option<Arc<Context>>,
    encoding: Arc<Encoding>,
}

impl Completer {
    /// Completes a value. `context` contains the arguments that the client has already filled in.
    fn complete(&self, value: &str, context: Option<&str>) -> CallFuture {
        let encoding = Arc::clone(&self.encoding);
        let function = match &self.source {
            CompletionSource::Function(function, _) => *function,
            CompletionSource::Values(values) => {
                let body = Completions::matching(value, values.iter()).write(&encoding);
                return Box::pin(ready(Finished::with_result(body)));
            }
        };
        let input = CompletionInput { value: value.into(), earlier: Arc::new(earlier_arguments(context)) };
        let env = CallEnv {
            completion: Some(input),
            ..server_fn_env(Arc::clone(&self.states), Arc::clone(&encoding), self.context.clone())
        };
        let is_blocking = self.is_blocking;
        Box::pin(async move {
            match run_server_fn(function, is_blocking, env).await {
                Ok(ServerFnOutput::Completions(completions)) => Finished::with_result(completions.write(&encoding)),
                Ok(ServerFnOutput::Resources(_)) => Finished::with_result(Completions::default().write(&encoding)),
                Err(error) => Finished::failed(error),
            }
        })
    }

    /// Completes the value of the arguments that layers have seen.
    fn complete_layered(&self, arguments: &str) -> CallFuture {
        match params::string(raw::member(arguments, "value").map(RawJson::new), "argument.value") {
            Ok(value) => self.complete(&value, raw::member(arguments, "context")),
            Err(fault) => Box::pin(ready(Finished::failed(fault))),
        }
    }
}

/// Reads the arguments that the client has already filled in.
fn earlier_arguments(context: Option<&str>) -> EarlierArguments {
    let arguments = context.and_then(|context| raw::member(context, "arguments"));
    let strings = arguments.into_iter().flat_map(raw::members);
    let strings = strings.filter_map(|(name, json)| Some((name.into_owned(), raw::string(json)?.into_owned())));
    EarlierArguments(strings.collect::<BTreeMap<_, _>>())
}
