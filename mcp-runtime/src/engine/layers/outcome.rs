use std::{any::TypeId, fmt};

use super::call::{Call, CallKind};
use crate::{
    error::Fault,
    handler::{
        Completions, Finished, HandlerError, HandlerErrorKind, HandlerResult, PromptOutput, Reply, ResourceOutput,
        ResultKind, ToolOutput, finish, write_prompt, write_resource, write_tool,
    },
    model::ToolResult,
    revision::Dialect,
};

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

/// The status of a finished call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStatus {
    /// The call returned a result.
    Success,
    /// The call returned a result that reports an error to the model.
    ToolError,
    /// The call needs answers from the client, which repeats the request with them.
    InputRequired,
    /// The call became a task, which continues to run.
    TaskCreated,
    /// The call failed with a protocol error.
    Fault,
}

impl CallStatus {
    /// Returns the name of the status: `success`, `tool_error`, `input_required`, `task_created` or `fault`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ToolError => "tool_error",
            Self::InputRequired => "input_required",
            Self::TaskCreated => "task_created",
            Self::Fault => "fault",
        }
    }
}

impl fmt::Display for CallStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
    #[cfg(feature = "cache")]
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

    /// Returns the JSON of the result, as encoded for the caller's revision, if the call succeeded.
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
