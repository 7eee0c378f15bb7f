//! The called function as its errors, its timeout and its response depend on it.

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
    error::Fault,
    handler::{Context, Encoding, Finished, Input, Outcome, Reason, Refusal, Reply, Running, write_tool_error},
    jsonrpc::Id,
    revision::Feature,
};

/// A call that has less time left than this has none.
const PRECISION: Duration = Duration::from_millis(1);

/// What an answer depends on, beside the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callee {
    /// The name on the wire, for messages; the function's source is in the log.
    pub(crate) name: &'static str,
    /// Whether a model reads the answer, so that what it can mend goes back as a result.
    pub(crate) is_tool: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Callee {
    /// Decodes the arguments of an async function, and calls it.
    pub(crate) fn start(
        &self,
        function: AsyncFn,
        input: Input<'_>,
        entered: Option<&Context>,
        id: &Id<'_>,
    ) -> Result<Running, Refusal> {
        catch_unwind(AssertUnwindSafe(|| Context::enter(entered, || function(input))))
            .unwrap_or_else(|panic| Err(self.panicked(&*panic, id).into()))
    }

    /// Waits for the result, but no longer than the call may take; the time in which its client was asked does not count.
    pub(crate) async fn wait(
        &self,
        mut running: GuardedCall,
        context: Option<&Context>,
        id: &Id<'_>,
    ) -> Option<Result<Finished, Fault>> {
        let caught = |result: GuardedResult| result.map_err(|panic| self.panicked(&*panic, id));
        let Some(limit) = self.timeout else { return Some(caught(running.await)) };
        let began = tokio::time::Instant::now();
        let mut rest = limit;
        loop {
            if let Ok(result) = tokio::time::timeout(rest, &mut running).await {
                return Some(caught(result));
            }
            let waited = context.map_or(Duration::ZERO, Context::waited);
            rest = (limit + waited).saturating_sub(began.elapsed());
            if rest < PRECISION {
                return None;
            }
        }
    }

    pub(crate) fn timed_out(&self, encoding: &Encoding, id: &Id<'_>) -> Finished {
        let limit = self.timeout.unwrap_or_default();
        let why = format!("`{}` did not finish within {limit:?}", self.name);
        tracing::warn!(name = self.name, id = id.as_json(), ?limit, "a call timed out");
        match self.is_tool {
            false => Finished { body: Vec::new(), outcome: Err(Fault::internal(why).into()) },
            true => {
                let mut body = Vec::new();
                write_tool_error(&mut Reply::plain(&mut body, encoding), &why);
                Finished { body, outcome: Ok(()) }
            }
        }
    }

    /// Says that a function panicked; with what, only the log knows.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send), id: &Id<'_>) -> Fault {
        let what = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(
            name = self.name,
            id = id.as_json(),
            panic = what.unwrap_or("(no message)"),
            "a function panicked"
        );
        Fault::internal(format!("`{}` failed: internal error", self.name))
    }

    /// Writes the response of a call that ran as a future.
    pub(crate) fn finish(
        &self,
        out: &mut Vec<u8>,
        encoding: &Encoding,
        id: &Id<'_>,
        finished: Result<Finished, Fault>,
    ) {
        let start = out.len();
        match finished {
            Ok(Finished { body, outcome: Ok(()) }) => response::respond(out, id, &body),
            Ok(Finished { outcome, .. }) => self.settle(out, start, encoding, id, outcome),
            Err(fault) => self.settle(out, start, encoding, id, Err(fault.into())),
        }
    }

    /// Ends the response that was begun at `start`, or replaces it if the call came to no result.
    pub(crate) fn settle(&self, out: &mut Vec<u8>, start: usize, encoding: &Encoding, id: &Id<'_>, outcome: Outcome) {
        let reason = match outcome {
            Ok(()) => return out.push(b'}'),
            Err(refusal) => refusal.into_reason(),
        };
        out.truncate(start);
        let fault = match reason {
            Reason::Fault(fault) => fault,
            Reason::Failed { why, .. } if self.is_tool => return self.refuse_for_model(out, encoding, id, &why),
            Reason::Failed { why, .. } => {
                tracing::error!(name = self.name, id = id.as_json(), why, "a function failed");
                Fault::internal(format!("`{}` failed", self.name))
            }
            Reason::Arguments(violations) => {
                let lines: String = violations.iter().map(|violation| format!("\n- {violation}")).collect();
                let text = format!("the arguments of `{}` do not fit:{lines}", self.name);
                if self.is_tool && encoding.has(Feature::InputErrorsAsResults) {
                    return self.refuse_for_model(out, encoding, id, &text);
                }
                Fault::InvalidParams(text)
            }
        };
        response::refuse(out, encoding.dialect, Some(id), &fault);
    }

    /// Writes what the model is to read, and may mend.
    fn refuse_for_model(&self, out: &mut Vec<u8>, encoding: &Encoding, id: &Id<'_>, text: &str) {
        response::begin(out, id);
        write_tool_error(&mut Reply::plain(out, encoding), text);
        out.push(b'}');
    }
}

/// The call of an async function.
pub(crate) type AsyncFn = for<'a> fn(Input<'a>) -> Result<Running, Refusal>;
