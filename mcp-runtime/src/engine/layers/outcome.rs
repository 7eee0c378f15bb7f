use std::{any::TypeId, fmt};

use super::call::{Call, CallInfo};
use crate::{
    error::Fault,
    handler::{
        Finished, HandlerError, HandlerErrorKind, HandlerResult, Input, PromptOutput, Reply, ResourceOutput,
        ToolOutput, entry::EntryKind, write_prompt, write_resource, write_tool,
    },
    jsonrpc::raw,
    revision::Feature,
};

/// What a call came to.
#[derive(Debug)]
pub struct Outcome {
    pub(super) finished: Finished,
    refusals: Refusals,
}

/// Which refusals a model reads, as results.
#[derive(Debug, Clone, Copy, Default)]
struct Refusals {
    /// The function's own errors.
    failures: bool,
    /// What is wrong with the arguments.
    arguments: bool,
}

impl Refusals {
    fn of(info: &CallInfo) -> Self {
        let is_tool = info.entry.kind == EntryKind::Tool;
        Self { failures: is_tool, arguments: is_tool && info.encoding.has(Feature::InputErrorsAsResults) }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// With a result.
    Success,
    /// With a result that tells the model what went wrong.
    ToolError,
    /// With questions for the client, which will call again with the answers.
    InputRequired,
    /// With a task, which goes on.
    TaskCreated,
    /// With a protocol error.
    Fault,
}

impl Ending {
    /// A word for log files: `success`, `tool_error`, `input_required`, `task_created` or `fault`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ToolError => "tool_error",
            Self::InputRequired => "input_required",
            Self::TaskCreated => "task_created",
            Self::Fault => "fault",
        }
    }

    /// Finds out what a result is, by what it says of itself.
    fn of_result(body: &str) -> Self {
        let mut ending = Self::Success;
        for (name, value) in raw::members(body) {
            match (&*name, value) {
                ("isError", "true") => ending = Self::ToolError,
                ("resultType", r#""input_required""#) => return Self::InputRequired,
                ("resultType", r#""task""#) | ("task", _) => return Self::TaskCreated,
                _ => {}
            }
        }
        ending
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Outcome {
    /// Answers the call of a tool.
    ///
    /// ```
    /// use mcp_runtime::{
    ///     ToolResult,
    ///     layers::{Call, Next, Outcome},
    /// };
    ///
    /// async fn closed(call: Call, _: Next) -> Outcome {
    ///     Outcome::tool(&call, ToolResult::error("we are closed on Sundays"))
    /// }
    /// ```
    pub fn tool(call: &Call, value: impl ToolOutput) -> Self {
        Self::written(call, EntryKind::Tool, |reply| write_tool(reply, value))
    }

    /// Answers the reading of a resource.
    pub fn resource(call: &Call, value: impl ResourceOutput) -> Self {
        Self::written(call, EntryKind::Resource, |reply| write_resource(reply, value))
    }

    /// Answers the request for a prompt.
    pub fn prompt(call: &Call, value: impl PromptOutput) -> Self {
        Self::written(call, EntryKind::Prompt, |reply| write_prompt(reply, value))
    }

    /// Refuses a call with a sentence: of a tool for the model to read, of anything else as a protocol error. The client
    /// gets it, so it must not hold secrets.
    pub fn error(call: &Call, text: impl Into<String>) -> Self {
        match call.kind() {
            EntryKind::Tool => Self::tool(call, crate::ToolResult::error(text)),
            EntryKind::Resource | EntryKind::Prompt => Fault::internal(text).into(),
        }
    }

    pub(super) fn of(finished: Finished, info: &CallInfo) -> Self {
        Self { finished, refusals: Refusals::of(info) }
    }

    /// Answers with the JSON of a result that a call of the same function in the same revision came to.
    #[cfg(feature = "cache")]
    pub(crate) fn again(call: &Call, body: &[u8]) -> Self {
        Self::of(Finished { body: body.to_vec(), outcome: Ok(()) }, &call.info)
    }

    fn written(call: &Call, kind: EntryKind, write: impl FnOnce(&mut Reply<'_>) -> HandlerResult) -> Self {
        if call.kind() != kind {
            tracing::error!(name = call.name(), "a layer answered with the result of another kind of function");
            return Fault::internal(format!("`{}` failed: internal error", call.entry().name)).into();
        }
        let info = &*call.info;
        let input = Input {
            arguments: "{}",
            contract: &info.contract,
            states: &info.states,
            context: None,
            encoding: &info.encoding,
            uri: &info.uri,
        };
        Self::of(input.into_owned().finish(write), info)
    }

    /// How the call ended.
    pub fn ending(&self) -> Ending {
        let refusal = match (&self.finished.outcome, self.json()) {
            (Err(refusal), _) => refusal,
            (Ok(()), body) => return Ending::of_result(body.unwrap_or_default()),
        };
        match refusal.kind() {
            HandlerErrorKind::Failed { .. } if self.refusals.failures => Ending::ToolError,
            HandlerErrorKind::InvalidArguments(_) if self.refusals.arguments => Ending::ToolError,
            HandlerErrorKind::Fault(_) | HandlerErrorKind::Failed { .. } | HandlerErrorKind::InvalidArguments(_) => {
                Ending::Fault
            }
        }
    }

    /// The protocol error that the function, a layer or the framework answered.
    pub fn fault(&self) -> Option<&Fault> {
        match self.reason()? {
            HandlerErrorKind::Fault(fault) => Some(fault),
            HandlerErrorKind::Failed { .. } | HandlerErrorKind::InvalidArguments(_) => None,
        }
    }

    /// The text of the error that the function returned, unless that was a [`Fault`]. Of a tool the model will read it; of a
    /// resource or a prompt only the log will.
    pub fn failure(&self) -> Option<&str> {
        self.failure_of().map(|(why, _)| why)
    }

    /// The JSON of the result, in the words of the caller's revision, if the function gave one.
    pub fn json(&self) -> Option<&str> {
        self.finished.outcome.is_ok().then(|| std::str::from_utf8(&self.finished.body).ok()).flatten()
    }

    /// The text of the function's own error, and its type.
    pub(crate) fn failure_of(&self) -> Option<(&str, TypeId)> {
        match self.reason()? {
            HandlerErrorKind::Failed { message, type_id } => Some((message, *type_id)),
            HandlerErrorKind::Fault(_) | HandlerErrorKind::InvalidArguments(_) => None,
        }
    }

    fn reason(&self) -> Option<&HandlerErrorKind> {
        self.finished.outcome.as_ref().err().map(HandlerError::kind)
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        let finished = Finished { body: Vec::new(), outcome: Err(fault.into()) };
        Self { finished, refusals: Refusals::default() }
    }
}

impl<E: Into<Self>> From<Result<Self, E>> for Outcome {
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or_else(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::Ending;

    #[test]
    fn a_result_says_what_it_is() {
        for (body, ending) in [
            (r#"{"content":[]}"#, Ending::Success),
            (r#"{"content":[],"isError":false,"resultType":"complete"}"#, Ending::Success),
            (r#"{"structuredContent":{"isError":true},"content":[]}"#, Ending::Success),
            (r#"{"content":[],"isError":true,"resultType":"complete"}"#, Ending::ToolError),
            (r#"{"inputRequests":{},"resultType":"input_required"}"#, Ending::InputRequired),
            (r#"{"resultType":"task","taskId":"1"}"#, Ending::TaskCreated),
            (r#"{"task":{"taskId":"1"}}"#, Ending::TaskCreated),
        ] {
            assert_eq!(Ending::of_result(body), ending, "{body}");
        }
    }
}
