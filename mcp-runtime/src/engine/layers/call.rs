//! A call as layers see it, and its outcome.

use std::{any::TypeId, sync::Arc};

use serde_json::{Map, Value};
use tracing::Instrument as _;

#[cfg(feature = "cluster")]
use super::LayerBackend;
use crate::{
    engine::{call::running::Completion, request::start::CallSpan},
    error::Fault,
    handler::{
        Caller, Completions, Context, Finished, Function, HandlerError, HandlerErrorKind, HandlerResult, Input,
        PromptOutput, Reply, ResourceOutput, ResultKind, ToolOutput,
        entry::{EntryInfo, EntryKind, Handler, Hints},
        finish, run_check,
        schema::Violation,
        write_prompt, write_resource, write_tool,
    },
    jsonrpc::raw,
    model::{ToolResult, named},
    revision::Dialect,
    stdx::debug,
};

/// A call of a function, as layers see it. Cloning it is cheap.
///
/// ```
/// # use mcp_runtime::layers::{Call, Next, Outcome};
/// async fn log_slow_calls(call: Call, next: Next) -> Outcome {
///     let began = std::time::Instant::now();
///     let outcome = next.run(call.clone()).await;
///     if began.elapsed().as_secs() > 1 {
///         tracing::warn!(name = call.name(), arguments = call.arguments(), "slow call");
///     }
///     outcome
/// }
/// # mcp_runtime::layers::from_fn(log_slow_calls);
/// ```
#[derive(Clone)]
pub struct Call {
    pub(super) context: Context,
    arguments: Arc<str>,
    /// The completion of an argument, if that is called instead of the function.
    completion: Option<Arc<Completion>>,
    /// The position of the layer that receives the call.
    pub(super) position: LayerPosition,
}

/// The place of a layer among the layers of the server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LayerPosition {
    /// Distinguishes the keys of the layer in a backend from the keys of other layers.
    pub(super) index: usize,
    /// Whether the layer applies to every call.
    pub(super) is_general: bool,
}

named! {
    /// The kind of a call.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, CallKind, Next, Outcome};
    /// async fn no_resources(call: Call, next: Next) -> Outcome {
    ///     if call.kind() == CallKind::Resource {
    ///         return Outcome::error(&call, "resources are not available at the moment");
    ///     }
    ///     next.run(call).await
    /// }
    /// # mcp_runtime::layers::from_fn(no_resources);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum CallKind {
        /// `tools/call`
        Tool = "tool",
        /// `resources/read`
        Resource = "resource",
        /// `prompts/get`
        Prompt = "prompt",
        /// `completion/complete`, for an argument of a prompt or a variable of a resource template.
        Completion = "completion",
        /// A method of an extension.
        Method = "method",
    }
}

impl Call {
    pub(crate) fn new(context: Context, arguments: &str) -> Self {
        Self { context, arguments: arguments.into(), completion: None, position: LayerPosition::default() }
    }

    /// Returns the call with a completion in place of its function.
    pub(crate) fn completing(self, completion: Completion) -> Self {
        Self { completion: Some(Arc::new(completion)), ..self }
    }

    /// Returns the registered function. Every call with layers has one.
    fn function(&self) -> &Function {
        self.context.call().function.as_deref().expect("layers wrap functions")
    }

    /// Returns whether the layer that receives the call applies to every call.
    pub(crate) fn is_layered_generally(&self) -> bool {
        self.position.is_general
    }

    /// Returns the kind of the call.
    pub fn kind(&self) -> CallKind {
        match (&self.completion, self.function().kind()) {
            (Some(_), _) => CallKind::Completion,
            (None, EntryKind::Tool) => CallKind::Tool,
            (None, EntryKind::Resource) => CallKind::Resource,
            (None, EntryKind::Prompt) => CallKind::Prompt,
            (None, EntryKind::Method) => CallKind::Method,
        }
    }

    /// Returns the name of the tool, prompt or method, or the URI of the resource. For a completion, returns the name of the
    /// prompt or the URI template.
    pub fn name(&self) -> &str {
        self.completion.as_ref().map_or(&self.context.call().subject, |completion| &completion.subject)
    }

    /// Returns the called entry, or the entry whose argument is completed. Its name is a registered name, unlike the
    /// URI of a resource.
    pub fn entry(&self) -> EntryInfo<'_> {
        self.function().info()
    }

    /// Returns the behaviour hints of a tool. They are empty for other calls.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, Next, Outcome};
    /// /// Rejects calls that change something while the server is in maintenance.
    /// async fn maintenance(call: Call, next: Next) -> Outcome {
    ///     if call.hints().read_only == Some(true) {
    ///         return next.run(call).await;
    ///     }
    ///     Outcome::error(&call, "the server is in maintenance; only reading is possible")
    /// }
    /// # mcp_runtime::layers::from_fn(maintenance);
    /// ```
    pub fn hints(&self) -> Hints {
        if self.completion.is_some() { Hints::default() } else { self.function().hints() }
    }

    /// Returns the backend that the processes of the service share, for layers that count or keep something for all of
    /// them. Returns `None` if the server has no [backend](crate::Server::backend).
    #[cfg(feature = "cluster")]
    pub fn backend(&self) -> Option<LayerBackend<'_>> {
        let shared = self.context.call().states.get()?;
        Some(LayerBackend { shared, position: self.position.index })
    }

    /// Returns the sender of the request.
    pub fn caller(&self) -> &Caller {
        &self.context.shared().caller
    }

    /// Returns the JSON of the request's id, as it appears in the log.
    pub fn request_id(&self) -> &str {
        self.context.request_id()
    }

    /// Returns the JSON object of the arguments. Arguments of prompts and variables of resource templates are already
    /// converted to the types of the function's parameters.
    ///
    /// For a completion, the members are the `name` of the argument, the `value` to complete and the `context` with the
    /// arguments that the user has already filled in.
    ///
    /// Layers run before the arguments are validated, so the arguments may be invalid.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns one of the arguments, without validation.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, Next, Outcome};
    /// async fn only_own_region(call: Call, next: Next) -> Outcome {
    ///     match call.argument("region") {
    ///         Some(region) if region != "eu" => Outcome::error(&call, "only the region `eu` is available"),
    ///         _ => next.run(call).await,
    ///     }
    /// }
    /// # mcp_runtime::layers::from_fn(only_own_region);
    /// ```
    pub fn argument(&self, name: &str) -> Option<Value> {
        serde_json::from_str(raw::member(&self.arguments, name)?).ok()
    }

    /// Replaces the arguments. The new arguments are validated like the arguments of the client.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, Next, Outcome};
    /// async fn trim(mut call: Call, next: Next) -> Outcome {
    ///     if let Ok(mut arguments) = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(call.arguments()) {
    ///         for text in arguments.values_mut().filter(|value| value.is_string()) {
    ///             *text = text.as_str().unwrap_or_default().trim().into();
    ///         }
    ///         call.set_arguments(arguments);
    ///     }
    ///     next.run(call).await
    /// }
    /// # mcp_runtime::layers::from_fn(trim);
    /// ```
    pub fn set_arguments(&mut self, arguments: Map<String, Value>) {
        self.arguments = Value::Object(arguments).to_string().into();
    }

    /// Returns whether the function takes a [`Context`](crate::Context), in which case its result may depend on more
    /// than the arguments and the state of the server.
    pub fn uses_context(&self) -> bool {
        self.completion.as_ref().map_or(self.function().uses_context, |completion| completion.source.takes_context())
    }

    /// Returns whether the function has sent requests to its client, in this round or an earlier round, in which case
    /// its result is meant for this client only.
    pub fn is_conversation(&self) -> bool {
        self.context.is_conversation()
    }

    /// Returns a number that distinguishes the function from all other functions, even from later functions with the
    /// same name.
    pub(crate) fn function_id(&self) -> u64 {
        self.function().id
    }

    /// Returns the dialect of the response if the call is one of a tool, some of whose errors are results.
    pub(super) fn tool_dialect(&self) -> Option<&'static Dialect> {
        (self.kind() == CallKind::Tool).then_some(self.context.call().encoding.dialect)
    }

    /// Calls the function. A layer may replace the outcome, so errors are logged here.
    pub(super) async fn run(self) -> Finished {
        let context = self.context.clone();
        let span = CallSpan::new(&context, || format!("function {}", context.call().name));
        let mut finished = match span {
            CallSpan::Fixed(span) => self.run_function().instrument(span).await,
            span @ CallSpan::Following(_) => span.around(Box::pin(self.run_function())).await,
        };
        if let Err(error) = &mut finished.outcome {
            error.log(&context.call().name, context.request_id());
        }
        finished
    }

    async fn run_function(self) -> Finished {
        if let Some(completion) = &self.completion {
            return completion.run(&self.context, &self.arguments).await;
        }
        let violations = match self.check_in_advance().await {
            Ok(violations) => violations,
            Err(fault) => return Finished::failed(fault),
        };
        let running = {
            let (context, function) = (&self.context, self.function());
            let violations = violations.as_deref();
            let input = Input { violations, ..Input::new(function, context.call(), Some(context), &self.arguments) };
            match &function.common().handler {
                Handler::Sync(function) => return finish(context, |reply| function(input, reply)),
                handler => handler.start(input, context.clone()),
            }
        };
        match running {
            Ok(running) => running.await,
            Err(error) => Finished::failed(error),
        }
    }

    /// Checks the arguments on another thread if that may take long. Otherwise, they are checked when they are decoded.
    ///
    /// # Errors
    ///
    /// Fails if the server is shutting down.
    async fn check_in_advance(&self) -> Result<Option<Vec<Violation>>, Fault> {
        if !self.function().contract.is_slow_to_check(&self.arguments) {
            return Ok(None);
        }
        let call = self.clone();
        let violations = run_check(&self.context, move || call.function().contract.check(&call.arguments)).await;
        violations.map(Some).ok_or_else(Fault::shutting_down)
    }
}

debug!(Call, self, kind: self.kind(), name: self.name());

/// The outcome of a call: a result or an error.
///
/// ```
/// # use mcp_runtime::layers::{Call, Next, Outcome};
/// async fn maintenance(call: Call, _: Next) -> Outcome {
///     Outcome::error(&call, "the server is being maintained until 18:00")
/// }
/// # mcp_runtime::layers::from_fn(maintenance);
/// ```
#[derive(Debug)]
pub struct Outcome {
    pub(super) finished: Finished,
    /// The dialect of the response if the call is one of a tool, some of whose errors are results.
    pub(super) tool_dialect: Option<&'static Dialect>,
}

named! {
    /// The status of a finished call.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum CallStatus {
        /// The call returned a result.
        Success = "success",
        /// The call returned a result that reports an error to the model.
        ToolError = "tool_error",
        /// The call needs answers from the client, which repeats the request with them.
        InputRequired = "input_required",
        /// The call became a task, which continues to run.
        TaskCreated = "task_created",
        /// The call failed with a protocol error.
        Fault = "fault",
    }
}

impl Outcome {
    /// Returns the outcome of a tool call.
    ///
    /// ```
    /// use mcp_runtime::{
    ///     ToolResult,
    ///     layers::{Call, Next, Outcome},
    /// };
    ///
    /// async fn closed(call: Call, _: Next) -> Outcome {
    ///     Outcome::tool(&call, ToolResult::error("closed on Sundays"))
    /// }
    /// ```
    pub fn tool(call: &Call, value: impl ToolOutput) -> Self {
        Self::written(call, CallKind::Tool, |reply| write_tool(reply, value))
    }

    /// Returns the outcome of reading a resource.
    pub fn resource(call: &Call, value: impl ResourceOutput) -> Self {
        Self::written(call, CallKind::Resource, |reply| write_resource(reply, value))
    }

    /// Returns the outcome of getting a prompt.
    pub fn prompt(call: &Call, value: impl PromptOutput) -> Self {
        Self::written(call, CallKind::Prompt, |reply| write_prompt(reply, value))
    }

    /// Returns the outcome of a completion.
    pub fn completions(call: &Call, completions: &Completions) -> Self {
        if call.kind() != CallKind::Completion {
            return Self::wrong_kind(call);
        }
        Self::of(Finished::with_result(completions.write(&call.context.call().encoding)), call)
    }

    /// Returns an outcome that rejects a call with a message. For a tool, it is a result that the model reads; for
    /// all other calls, it is a protocol error. The client receives the message, so it must not contain secrets.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, Next, Outcome};
    /// async fn members_only(call: Call, next: Next) -> Outcome {
    ///     match call.caller().principal() {
    ///         Some(_) => next.run(call).await,
    ///         None => Outcome::error(&call, "sign in first"),
    ///     }
    /// }
    /// # mcp_runtime::layers::from_fn(members_only);
    /// ```
    pub fn error(call: &Call, text: impl Into<String>) -> Self {
        match call.kind() {
            CallKind::Tool => Self::tool(call, ToolResult::error(text)),
            _ => Fault::internal(text).into(),
        }
    }

    /// Returns the size of the result in bytes. Errors have none.
    pub(crate) fn size(&self) -> usize {
        self.finished.body.len()
    }

    fn of(finished: Finished, call: &Call) -> Self {
        Self { finished, tool_dialect: call.tool_dialect() }
    }

    /// Returns an outcome with the JSON of an earlier result. The function and the revision must be the same.
    pub(crate) fn from_cached_json(call: &Call, body: &[u8]) -> Self {
        Self::of(Finished::with_result(body.to_vec()), call)
    }

    fn written(call: &Call, kind: CallKind, write: impl FnOnce(&mut Reply<'_>) -> HandlerResult) -> Self {
        if call.kind() != kind {
            return Self::wrong_kind(call);
        }
        Self::of(finish(&call.context, write), call)
    }

    fn wrong_kind(call: &Call) -> Self {
        tracing::error!(name = call.name(), "a layer returned a result of the wrong kind");
        Fault::internal(format!("`{}` failed: internal error", call.entry().name)).into()
    }

    /// Returns the status of the call.
    ///
    /// ```
    /// # use mcp_runtime::layers::{Call, CallStatus, Next, Outcome};
    /// async fn count_failures(call: Call, next: Next) -> Outcome {
    ///     let name = call.entry().name.to_owned();
    ///     let outcome = next.run(call).await;
    ///     if outcome.status() != CallStatus::Success {
    ///         eprintln!("{name} failed");
    ///     }
    ///     outcome
    /// }
    /// # mcp_runtime::layers::from_fn(count_failures);
    /// ```
    pub fn status(&self) -> CallStatus {
        let error = match &self.finished.outcome {
            Err(error) => error,
            Ok(ResultKind::Complete) => return CallStatus::Success,
            Ok(ResultKind::ToolError(_)) => return CallStatus::ToolError,
            Ok(ResultKind::InputRequired) => return CallStatus::InputRequired,
            Ok(ResultKind::TaskCreated) => return CallStatus::TaskCreated,
        };
        let is_tool_error = self.tool_dialect.is_some_and(|dialect| match error.kind() {
            HandlerErrorKind::Fault(fault) => dialect.is_tool_error(fault),
            _ => true,
        });
        if is_tool_error { CallStatus::ToolError } else { CallStatus::Fault }
    }

    /// Returns the fault that the function, a layer or the framework raised. If [`status`](Self::status) is
    /// [`ToolError`](CallStatus::ToolError), the model reads its message.
    pub fn fault(&self) -> Option<&Fault> {
        match self.error_kind()? {
            HandlerErrorKind::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns the text of the error that the function returned, unless it is a [`Fault`] or
    /// [masked](crate::ErrorResponse::masked). The model reads it if the function is a tool; otherwise it is only logged,
    /// unless it is the message of an [`ErrorResponse`](crate::ErrorResponse).
    pub fn failure(&self) -> Option<&str> {
        match self.error_kind()? {
            HandlerErrorKind::Message(message) | HandlerErrorKind::Failed { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Returns the JSON of the result, as encoded for the caller's revision. It may also be an error of a
    /// tool, a request for input or a task, see [`status`](Self::status). Returns `None` if the call failed with another
    /// error.
    pub fn json(&self) -> Option<&str> {
        self.finished.outcome.is_ok().then(|| std::str::from_utf8(&self.finished.body).ok()).flatten()
    }

    /// Returns the text of the error that the function returned, and its type.
    pub(crate) fn failure_with_type(&self) -> Option<(&str, TypeId)> {
        match self.error_kind()? {
            HandlerErrorKind::Failed { message, type_id } => Some((message, *type_id)),
            _ => None,
        }
    }

    fn error_kind(&self) -> Option<&HandlerErrorKind> {
        self.finished.outcome.as_ref().err().map(HandlerError::kind)
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Self { finished: Finished::failed(fault), tool_dialect: None }
    }
}

impl<E: Into<Self>> From<Result<Self, E>> for Outcome {
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or_else(Into::into)
    }
}
