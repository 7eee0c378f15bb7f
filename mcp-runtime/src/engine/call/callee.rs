//! Runs the function of a call: starts it, enforces its timeout, and writes the response.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{
    guard::{GuardedCall, GuardedResult},
    response,
};
use crate::{
    error::{Fault, FaultClass},
    handler::{
        CallFuture, Context, Encoding, Finished, HandlerError, HandlerErrorKind, HandlerResult, Input, Reply,
        enter_call, entry::EntryKind, log_failure, masked_message, write_tool_error,
    },
    jsonrpc::Id,
};

/// The precision of tokio's timers. A call with less time left than this counts as timed out.
const TIMER_PRECISION: Duration = Duration::from_millis(1);

/// The properties of a called function that its response depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callee {
    /// The public name of the function, for messages.
    pub(crate) name: &'static str,
    /// The kind of the function, which decides who reads its errors, or `None` if it only lists or completes.
    pub(crate) kind: Option<EntryKind>,
    pub(crate) timeout: Option<Duration>,
}

/// The generated entry point of an async function.
pub(crate) type AsyncFn = for<'a> fn(Input<'a>) -> Result<CallFuture, HandlerError>;

impl Callee {
    /// Returns whether the function is a tool, whose errors are results for the model to read.
    fn is_tool(&self) -> bool {
        self.kind == Some(EntryKind::Tool)
    }

    /// Decodes the arguments of an async function and creates its future.
    pub(crate) fn start(
        &self,
        function: AsyncFn,
        input: Input<'_>,
        log_context: Option<&Context>,
        id: &Id<'_>,
    ) -> Result<CallFuture, HandlerError> {
        catch_unwind(AssertUnwindSafe(|| enter_call(log_context, || function(input))))
            .unwrap_or_else(|panic| Err(self.panic_fault(&*panic, id).into()))
    }

    /// Runs a call to completion. Returns `None` if it timed out. Time spent waiting for the client does not count.
    pub(crate) async fn run_with_timeout(
        &self,
        mut call: GuardedCall,
        context: Option<&Context>,
        id: &Id<'_>,
    ) -> Option<Result<Finished, Fault>> {
        let into_fault = |result: GuardedResult| result.map_err(|panic| self.panic_fault(&*panic, id));
        let Some(limit) = self.timeout else { return Some(into_fault(call.await)) };
        let start = tokio::time::Instant::now();
        let mut remaining = limit;
        loop {
            if let Ok(result) = tokio::time::timeout(remaining, &mut call).await {
                return Some(into_fault(result));
            }
            let waited = context.map_or(Duration::ZERO, Context::waited);
            remaining = (limit + waited).saturating_sub(start.elapsed());
            if remaining < TIMER_PRECISION {
                return None;
            }
        }
    }

    /// Returns the outcome of a call that timed out.
    pub(crate) fn timed_out(&self, encoding: &Encoding, id: &Id<'_>) -> Finished {
        let limit = self.timeout.unwrap_or_default();
        let message = format!("`{}` did not finish within {limit:?}", self.name);
        tracing::warn!(name = self.name, id = id.as_json(), ?limit, "call timed out");
        if !self.is_tool() {
            return Finished { body: Vec::new(), outcome: Err(Fault::internal(message).into()) };
        }
        let mut body = Vec::new();
        write_tool_error(&mut Reply::plain(&mut body, encoding), &message);
        Finished { body, outcome: Ok(()) }
    }

    /// Returns the fault of a function that panicked. The panic message is logged and not sent to the client.
    pub(crate) fn panic_fault(&self, panic: &(dyn Any + Send), id: &Id<'_>) -> Fault {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let panic = text.unwrap_or("(no message)");
        tracing::error!(name = self.name, id = id.as_json(), panic, "function panicked");
        Fault::internal(format!("`{}` failed: internal error", self.name))
    }

    /// Writes the response of a finished call. Returns the class of the fault if the response is an error.
    pub(crate) fn write_response(
        &self,
        out: &mut Vec<u8>,
        encoding: &Encoding,
        id: &Id<'_>,
        finished: Result<Finished, Fault>,
    ) -> Option<FaultClass> {
        let start = out.len();
        match finished {
            Ok(Finished { body, outcome: Ok(()) }) => {
                response::write_result(out, id, &body);
                None
            }
            Ok(Finished { outcome, .. }) => self.end_response(out, start, encoding, id, outcome),
            Err(fault) => self.end_response(out, start, encoding, id, Err(fault.into())),
        }
    }

    /// Completes the response that begins at `start` in `out`, or replaces it if the call failed. Returns the
    /// class of the fault if the response is an error.
    pub(crate) fn end_response(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        encoding: &Encoding,
        id: &Id<'_>,
        outcome: HandlerResult,
    ) -> Option<FaultClass> {
        let error = match outcome {
            Ok(()) => {
                out.push(b'}');
                return None;
            }
            Err(mut error) => {
                error.log(self.name, id.as_json());
                error.into_kind()
            }
        };
        out.truncate(start);
        match self.encode(error, encoding, id) {
            EncodedError::ToolResult(text) => {
                write_error_result(out, encoding, id, &text);
                None
            }
            EncodedError::Fault(fault) => {
                response::write_error(out, encoding.dialect, Some(id), &fault);
                fault.class()
            }
        }
    }

    /// Decides whether the model or the client is told of an error.
    fn encode(&self, error: HandlerErrorKind, encoding: &Encoding, id: &Id<'_>) -> EncodedError {
        let (text, fault): (String, fn(String) -> Fault) = match error {
            HandlerErrorKind::Fault(fault) if self.is_tool() && encoding.dialect.is_tool_error(&fault) => {
                (fault.to_string(), Fault::Internal)
            }
            HandlerErrorKind::Fault(fault) => return EncodedError::Fault(fault),
            HandlerErrorKind::Failed { message: reason, .. } if !self.is_tool() => {
                log_failure(self.name, id.as_json(), None, &reason);
                (format!("`{}` failed", self.name), Fault::Internal)
            }
            // All that the sender of a prompt's request can change is its arguments.
            HandlerErrorKind::Message(message) if self.kind == Some(EntryKind::Prompt) => {
                (message, Fault::InvalidParams)
            }
            HandlerErrorKind::Failed { message, .. } | HandlerErrorKind::Message(message) => (message, Fault::Internal),
            HandlerErrorKind::Masked(reference) => (masked_message(self.name, &reference), Fault::Internal),
            HandlerErrorKind::InvalidArguments(violations) => {
                let lines: String = violations.iter().map(|violation| format!("\n- {violation}")).collect();
                (format!("invalid arguments for `{}`:{lines}", self.name), Fault::InvalidParams)
            }
        };
        if self.is_tool() { EncodedError::ToolResult(text) } else { EncodedError::Fault(fault(text)) }
    }
}

/// The response to a failed call.
enum EncodedError {
    /// A tool result with `isError` and this text, which the model reads.
    ToolResult(String),
    /// A JSON-RPC error, which only the client sees.
    Fault(Fault),
}

/// Writes a tool result with `isError`, which the model reads.
fn write_error_result(out: &mut Vec<u8>, encoding: &Encoding, id: &Id<'_>, text: &str) {
    response::begin_result(out, id);
    write_tool_error(&mut Reply::plain(out, encoding), text);
    out.push(b'}');
}
