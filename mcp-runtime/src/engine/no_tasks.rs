//! Takes the place of `tasks` without the feature `tasks`, when no tool can support tasks.

use std::sync::Arc;

use super::{
    call::prepare::call_function,
    limits::TaskOptions,
    replicas::Replicas,
    request::{context::RequestContext, method::Method},
    subscriptions::filter::Filter,
};
use crate::{backend::ServerBackend, counters::Buffered, error::Fault, handler::Function, telemetry::SharedTelemetry};

/// The tasks of a server, which has none.
#[derive(Debug)]
pub(super) struct Tasks;

impl Tasks {
    pub(super) fn new(
        _: ServerBackend,
        _: Option<Arc<dyn Replicas>>,
        _: TaskOptions,
        _: &str,
        _: Option<SharedTelemetry>,
    ) -> Self {
        Self
    }
}

impl Tasks {
    /// Returns the bytes of arguments and of results, of which there are none.
    pub(super) fn buffered(&self) -> (Buffered, Buffered) {
        Default::default()
    }
}

/// A watch of no tasks.
#[derive(Debug)]
pub(crate) struct TaskWatch;

/// Calls the function of a tool.
pub(super) fn call_tool(
    request: &RequestContext<'_>,
    tool: &Arc<Function>,
    arguments: &str,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    call_function(request, tool, tool.name.clone(), arguments, out)
}

/// Rejects a `tasks/…` request.
pub(super) fn request(method: Method, _: &RequestContext<'_>, _: &mut Vec<u8>) -> Result<(), Fault> {
    Err(Fault::MethodNotFound(method.name().to_owned()))
}

/// Accepts every filter. The engine removes the tasks from it.
pub(super) fn check_filter(_: &RequestContext<'_>, _: &Filter) -> Result<(), Fault> {
    Ok(())
}

/// Watches nothing.
pub(super) fn watch(_: &RequestContext<'_>, _: &Filter) -> Result<Option<impl FnOnce() -> TaskWatch>, Fault> {
    Ok(None::<()>.map(|()| || TaskWatch))
}

/// Fails to compile, because tasks require the feature `tasks`.
#[doc(hidden)]
#[macro_export]
macro_rules! __task_support {
    ($any:tt) => {
        ::core::compile_error!(
            "the option `task` requires the feature `tasks` of `mcp-runtime`\n\
             help: run `cargo add mcp-runtime --features tasks`"
        )
    };
}
