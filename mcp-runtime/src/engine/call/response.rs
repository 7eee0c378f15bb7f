//! The responses of calls, and of all other requests.

use std::{any::Any, time::Duration};

use crate::{
    engine::request::operation::{Ending, PANIC, TIMEOUT, TOOL_ERROR},
    error::{Fault, excerpt},
    handler::{
        Call, Encoding, Finished, HandlerError, HandlerErrorKind, HandlerResult, Reply, ResultKind,
        entry::{EntryKind, SourceLocation},
        log_failure, masked_message,
        schema::Violation,
        write_tool_error,
    },
    jsonrpc::{Id, write},
    revision::{Dialect, Feature, encode::Object},
};

impl Call {
    /// Returns the outcome of a call that did not finish within this time.
    pub(crate) fn timed_out(&self, limit: Option<Duration>) -> Finished {
        let limit = limit.unwrap_or_default();
        let message = format!("`{}` did not finish within {limit:?}", self.name);
        tracing::warn!(name = &*self.name, id = self.id.as_json(), ?limit, "call timed out");
        let _ = self.failure.set(TIMEOUT);
        if self.is_tool() {
            let body = self.tool_error(&message);
            Finished::of_kind(ResultKind::ToolError(message), body)
        } else {
            Finished::failed(Fault::internal(message))
        }
    }

    /// Returns the fault of a function that panicked. The panic message is logged and not sent to the client.
    pub(crate) fn panic_fault(&self, panic: &(dyn Any + Send)) -> Fault {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let panic = text.unwrap_or("(no message)");
        tracing::error!(name = &*self.name, id = self.id.as_json(), panic, "function panicked");
        let _ = self.failure.set(PANIC);
        Fault::internal(format!("`{}` failed: internal error", self.name))
    }

    /// Returns the result that the client receives, as JSON, and its kind.
    ///
    /// # Errors
    ///
    /// Returns the fault that the client receives instead.
    pub(crate) fn result(&self, finished: Finished) -> Result<(ResultKind, Vec<u8>), Fault> {
        match finished.outcome {
            Ok(kind) => {
                if self.encoding.checks_results {
                    self.check_result(&kind, &finished.body)?;
                }
                Ok((kind, finished.body))
            }
            Err(error) => {
                let text = self.error_text(error)?;
                let body = self.tool_error(&text);
                Ok((ResultKind::ToolError(text), body))
            }
        }
    }

    /// Checks the result of a call against the output schema of its tool.
    ///
    /// # Errors
    ///
    /// Returns a fault with the violations. The log has their rules and the source of the function, but no values.
    pub(super) fn check_result(&self, kind: &ResultKind, body: &[u8]) -> Result<(), Fault> {
        let Some(function) = self.function.as_ref().filter(|_| self.encoding.has(Feature::StructuredContent)) else {
            return Ok(());
        };
        let (ResultKind::Complete, Some(output)) = (kind, function.output_schema()) else { return Ok(()) };
        let is_wrapped = output.wraps && !self.encoding.has(Feature::StructuredAnyValue);
        let violations = output.violations(std::str::from_utf8(body).unwrap_or_default(), is_wrapped);
        if violations.is_empty() {
            return Ok(());
        }
        let rules: Vec<_> = violations.iter().map(|it| format!("`{}` {}", it.path, it.rule)).collect();
        let SourceLocation { file, line, .. } = function.common().source;
        let (name, rules) = (&*self.name, rules.join("; "));
        tracing::error!(name, file, line, rules, "the result does not match the output schema");
        Err(Fault::internal(format!(
            "the result of `{name}` does not match its output schema:{}\nhelp: correct the `Serialize` or the `JsonSchema` \
             of the returned type, or the layer that changes the result",
            listed(&violations)
        )))
    }

    /// Writes the response of a finished call.
    pub(crate) fn write_response(&self, out: &mut Vec<u8>, finished: Finished) -> Ending {
        match self.result(finished) {
            Ok((kind, body)) => {
                write_result(out, &self.id, &body);
                self.ending(&kind)
            }
            Err(fault) => {
                if self.id.is_of_notification() {
                    let error = fault.log_text();
                    tracing::warn!(method = &*self.name, error, "the call of a notification failed");
                }
                write_error(out, self.encoding.dialect, Some(&self.id), &fault);
                self.failed(fault)
            }
        }
    }

    /// Completes the response that begins at `start` in `out`, or replaces it if the call failed.
    pub(super) fn end_response(&self, out: &mut Vec<u8>, start: usize, outcome: HandlerResult) -> Ending {
        match outcome {
            Ok(kind) => {
                out.push(b'}');
                self.ending(&kind)
            }
            Err(error) => {
                out.truncate(start);
                self.write_response(out, Finished::failed(error))
            }
        }
    }

    /// Returns how a call with a result of this kind has ended.
    pub(crate) fn ending(&self, kind: &ResultKind) -> Ending {
        match kind {
            ResultKind::ToolError(_) => Ending::Failed(self.failure.get().copied().unwrap_or(TOOL_ERROR)),
            ResultKind::Complete | ResultKind::InputRequired | ResultKind::TaskCreated => Ending::Complete,
        }
    }

    /// Returns how a call with this error has ended.
    pub(crate) fn failed(&self, fault: Fault) -> Ending {
        Ending::Fault(fault, self.failure.get().copied())
    }

    /// Returns a tool result with `isError` and this text, which the model reads.
    fn tool_error(&self, text: &str) -> Vec<u8> {
        let mut body = Vec::new();
        write_tool_error(&mut Reply::new(&mut body, self), text);
        body
    }

    /// Decides whether the model or the client is told of an error. Returns the text that the model reads.
    ///
    /// # Errors
    ///
    /// Returns the fault of a JSON-RPC error, which only the client sees.
    fn error_text(&self, mut error: HandlerError) -> Result<String, Fault> {
        error.log(&self.name, self.id.as_json());
        let (text, fault): (String, fn(String) -> Fault) = match error.into_kind() {
            HandlerErrorKind::Fault(fault) if self.is_tool() && self.encoding.dialect.is_tool_error(&fault) => {
                (fault.to_string(), Fault::Internal)
            }
            HandlerErrorKind::Fault(fault) => return Err(fault),
            HandlerErrorKind::Failed { message: reason, .. } if !self.is_tool() => {
                log_failure(&self.name, self.id.as_json(), None, &reason);
                (format!("`{}` failed", self.name), Fault::Internal)
            }
            // All that the sender of a prompt's request can change is its arguments.
            HandlerErrorKind::Message(message) if self.kind == Some(EntryKind::Prompt) => {
                (message, Fault::InvalidParams)
            }
            HandlerErrorKind::Failed { message, .. } | HandlerErrorKind::Message(message) => (message, Fault::Internal),
            HandlerErrorKind::Masked(reference) => (masked_message(&self.name, &reference), Fault::Internal),
            HandlerErrorKind::InvalidArguments(violations) => {
                (format!("invalid arguments for `{}`:{}", self.name, listed(&violations)), Fault::InvalidParams)
            }
        };
        if self.is_tool() { Ok(text) } else { Err(fault(text)) }
    }
}

/// Returns the violations as a list with a line for each.
fn listed(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("\n- {violation}")).collect()
}

/// Writes a response up to its result. The caller appends the result and a `}`.
pub(crate) fn begin_result(out: &mut Vec<u8>, id: &Id) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
}

/// Writes a response with an encoded result.
pub(crate) fn write_result(out: &mut Vec<u8>, id: &Id, result: &[u8]) {
    out.reserve(result.len() + 64);
    begin_result(out, id);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// Writes an error response. The id is `None` if the request had no readable id.
///
/// See [JSON-RPC 2.0, 5.1](https://www.jsonrpc.org/specification#error_object).
pub(crate) fn write_error(out: &mut Vec<u8>, dialect: &Dialect, id: Option<&Id>, fault: &Fault) {
    let mut response = Object::begin(out);
    response.raw("jsonrpc", br#""2.0""#);
    match id {
        Some(id) => response.raw("id", id.as_bytes()),
        None if dialect.has(Feature::AbsentErrorId) => {}
        None => response.raw("id", b"null"),
    }
    write_error_object(response.key("error"), dialect, fault);
    response.end();
}

/// Writes the error of an error response.
pub(crate) fn write_error_object(out: &mut Vec<u8>, dialect: &Dialect, fault: &Fault) {
    let mut error = Object::begin(out);
    write::plain(error.key("code"), &dialect.code(fault));
    error.string("message", &fault.to_string());
    error.value("data", dialect.data(fault).as_ref());
    error.end();
}

/// Returns the result of a method that returns no data.
pub(crate) fn empty_result(encoding: &Encoding) -> Vec<u8> {
    let mut out = vec![b'{'];
    encoding.end_result(&mut out, None);
    out
}

/// Returns the error for a request whose id is still in use.
pub(crate) fn duplicate_id(id: &Id) -> Fault {
    Fault::InvalidRequest(format!("a request with id {} is still in flight", excerpt(id.as_json())))
}
