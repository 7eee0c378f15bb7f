//! Runs the functions that complete an argument or list resources.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use crate::{
    engine::request::params,
    error::Fault,
    handler::{
        CallFuture, Completions, Context, EarlierArguments, Finished, Function, HandlerError, ServerFnInput,
        ServerFnOutput,
        entry::{CompleteFn, ServerFnEntry},
        run_blocking, takes_context,
    },
    jsonrpc::{RawJson, raw},
};

/// Runs a server function, on a separate thread if it blocks.
pub(crate) async fn run_server_fn(
    function: ServerFnEntry,
    blocking: bool,
    input: ServerFnInput,
) -> Result<ServerFnOutput, HandlerError> {
    if !blocking {
        return (function.call)(input).await;
    }
    let runtime = tokio::runtime::Handle::current();
    let context = input.context.clone();
    let produced = run_blocking(&context, move || runtime.block_on((function.call)(input))).await;
    produced.unwrap_or_else(|| Err(Fault::shutting_down().into()))
}

/// The source of the completions of an argument.
pub(crate) enum CompletionSource {
    Function(ServerFnEntry),
    /// A closure, and the name of the argument.
    Closure(Arc<CompleteFn>, Box<str>),
    /// The permitted values.
    Values(Arc<[String]>),
}

impl CompletionSource {
    /// Returns the source for an argument, or `None` if the function has no such argument.
    pub(crate) fn of(function: &Function, argument: &str) -> Option<Self> {
        let index = function.contract.arguments.iter().position(|known| known.name == argument)?;
        if let Some(complete) = function.common().handler.closures().and_then(|closures| closures.complete.clone()) {
            return Some(Self::Closure(complete, argument.into()));
        }
        Some(match function.contract.arguments[index].complete {
            Some(function) => Self::Function(function),
            None => Self::Values(Arc::clone(&function.contract.choices()[index])),
        })
    }

    /// Returns whether completing takes the context.
    pub(crate) fn takes_context(&self) -> bool {
        match self {
            Self::Function(function) => takes_context(function),
            Self::Closure(..) => true,
            Self::Values(_) => false,
        }
    }
}

/// The completion of an argument.
pub(crate) struct Completion {
    pub(crate) source: CompletionSource,
    /// The name of the prompt, or the URI template.
    pub(crate) subject: Box<str>,
}

impl Completion {
    /// Completes a value. `earlier` contains the arguments that the client has already filled in, as JSON.
    pub(crate) fn complete(&self, context: &Context, value: &str, earlier: Option<&str>) -> CallFuture {
        let earlier = || earlier_arguments(earlier);
        let completing = match &self.source {
            CompletionSource::Function(function) => {
                let is_blocking = context.call().function.as_ref().is_some_and(|function| function.common().blocking);
                let completed = Some((value.into(), Arc::new(earlier())));
                let input = ServerFnInput { context: context.clone(), completed };
                Box::pin(run_server_fn(*function, is_blocking, input))
            }
            CompletionSource::Closure(function, argument) => function(argument, value, earlier(), context.clone()),
            CompletionSource::Values(values) => {
                let body = Completions::matching(value, values.iter()).write(&context.call().encoding);
                return Box::pin(ready(Finished::with_result(body)));
            }
        };
        let context = context.clone();
        Box::pin(async move {
            let completions = match completing.await {
                Ok(ServerFnOutput::Completions(completions)) => completions,
                Ok(ServerFnOutput::Resources(_)) => Completions::default(),
                Err(error) => return Finished::failed(error),
            };
            Finished::with_result(completions.write(&context.call().encoding))
        })
    }

    /// Completes the value of the arguments that layers have seen.
    pub(crate) async fn run(&self, context: &Context, arguments: &str) -> Finished {
        match params::string(raw::member(arguments, "value").map(RawJson::new), "argument.value") {
            Ok(value) => self.complete(context, &value, raw::member(arguments, "context")).await,
            Err(fault) => Finished::failed(fault),
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
