//! How functions are called.

use std::{any::Any, fmt, future::ready, sync::Arc};

use crate::handler::{
    CallFuture, Context, EarlierArguments, Finished, HandlerError, HandlerResult, Input, Reply, ServerFnFuture, finish,
};

/// A closure that decodes the arguments and returns the future of a call.
pub(crate) type CallFn = dyn Fn(Input<'_>, Context) -> Result<CallFuture, HandlerError> + Send + Sync;

/// A closure that completes the value of an argument: its name, the value, and the earlier arguments.
pub(crate) type CompleteFn = dyn Fn(&str, &str, EarlierArguments, Context) -> ServerFnFuture + Send + Sync;

/// A closure that learns of the URIs that clients subscribe to. Its result is dropped when the subscription ends.
pub(crate) type SubscribedFn = dyn Fn(&str) -> Box<dyn Any + Send + Sync> + Send + Sync;

/// The closures of an entry that a program created.
#[derive(Clone)]
pub struct Closures {
    pub(crate) call: Arc<CallFn>,
    pub(crate) complete: Option<Arc<CompleteFn>>,
    /// Is called when a client subscribes to a URI of a resource.
    pub(crate) subscribed: Option<Arc<SubscribedFn>>,
    /// Whether the entry is left out if it is invalid.
    pub(crate) is_optional: bool,
}

/// How a function is called.
#[derive(Clone)]
pub enum Handler {
    /// A function that is called while the request is dispatched.
    Sync(for<'a, 'b, 'c> fn(Input<'a>, &'b mut Reply<'c>) -> HandlerResult),
    /// A function that runs as a future.
    Async(for<'a> fn(Input<'a>, Context) -> Result<CallFuture, HandlerError>),
    /// Closures of a program, one of which returns a future.
    Closure(Closures),
}

impl Handler {
    /// Decodes the arguments and creates the future of a call. A synchronous function is called at once.
    ///
    /// # Errors
    ///
    /// Returns every violation of the schema.
    pub(crate) fn start(&self, input: Input<'_>, context: Context) -> Result<CallFuture, HandlerError> {
        match self {
            Self::Sync(function) => Ok(Box::pin(ready(finish(&context, |reply| function(input, reply))))),
            Self::Async(function) => function(input, context),
            Self::Closure(closures) => (closures.call)(input, context),
        }
    }

    /// Returns the closures, if a program created the entry.
    pub(crate) fn closures(&self) -> Option<&Closures> {
        if let Self::Closure(closures) = self { Some(closures) } else { None }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync(_) => "Sync",
            Self::Async(_) => "Async",
            Self::Closure(_) => "Closure",
        })
    }
}

/// Boxes the future of an async function's call.
pub fn boxed(future: impl Future<Output = Finished> + Send + 'static) -> CallFuture {
    Box::pin(future)
}
