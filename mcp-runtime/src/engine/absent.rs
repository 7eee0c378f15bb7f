//! Takes the place of the modules whose features are disabled.

/// The requests to clients, without the feature `ask`: no function can send any.
#[cfg(not(feature = "ask"))]
pub(super) mod client_requests {
    use std::sync::Arc;

    use crate::{
        engine::request::{context::RequestContext, params::invalid_request_state},
        error::Fault,
        handler::{ClientRequester, Function, entry::EntryKind},
        revision::Feature,
    };

    /// Returns no requester.
    ///
    /// # Errors
    ///
    /// Returns a fault if the request carries a `requestState`, which this server never issues.
    pub(in crate::engine) fn requester(
        request: &RequestContext<'_>,
        function: &Function,
        _subject: &str,
        _arguments: &str,
        _uses_context: bool,
    ) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
        let has_rounds = request.has(Feature::RequestMeta) && function.kind() != EntryKind::Method;
        if has_rounds && !request.id.is_of_notification() {
            request.params.input_responses()?;
            if request.params.request_state()?.is_some() {
                return Err(invalid_request_state("no function of this server asks its client"));
            }
        }
        Ok(None)
    }
}

/// The tasks, without the feature `tasks`: no tool can support them.
#[cfg(not(feature = "tasks"))]
pub(super) mod tasks {
    use std::sync::Arc;

    use crate::{
        backend::ServerBackend,
        counters::Buffered,
        engine::{
            call::prepare::call_function,
            limits::Limits,
            listener::Filter,
            replicas::Replicas,
            request::{context::RequestContext, params::Method},
        },
        error::Fault,
        handler::Function,
    };

    /// The tasks of a server, which has none.
    #[derive(Debug)]
    pub(crate) struct Tasks;

    impl Tasks {
        pub(in crate::engine) fn new(_: ServerBackend, _: Option<Arc<dyn Replicas>>, _: Limits, _: &str) -> Self {
            Self
        }

        pub(crate) async fn ended(&self) {}

        pub(crate) fn abort(&self) {}

        /// Returns the bytes of arguments and of results, of which there are none.
        pub(in crate::engine) fn buffered(&self) -> (Buffered, Buffered) {
            Default::default()
        }
    }

    /// A watch of no tasks.
    #[derive(Debug)]
    pub(crate) struct TaskWatch;

    /// Calls the function of a tool.
    pub(in crate::engine) fn call_tool(
        request: &RequestContext<'_>,
        tool: &Arc<Function>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        call_function(request, tool, tool.name.clone(), arguments, out)
    }

    /// Rejects a `tasks/…` request.
    pub(in crate::engine) fn request(method: Method, _: &RequestContext<'_>, _: &mut Vec<u8>) -> Result<(), Fault> {
        Err(Fault::MethodNotFound(method.name().to_owned()))
    }

    /// Accepts every filter. The engine removes the tasks from it.
    pub(in crate::engine) fn check_filter(_: &RequestContext<'_>, _: &Filter) -> Result<(), Fault> {
        Ok(())
    }

    /// Watches nothing.
    pub(in crate::engine) fn watch(
        _: &RequestContext<'_>,
        _: &mut Filter,
    ) -> Result<Option<impl FnOnce() -> TaskWatch + use<>>, Fault> {
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
}
