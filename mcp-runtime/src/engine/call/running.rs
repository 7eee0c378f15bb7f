//! The responses of calls, and of all other requests.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use crate::{
    engine::request::operation::{Ending, PANIC, TIMEOUT, TOOL_ERROR},
    error::Fault,
    excerpt::excerpt,
    handler::{
        Call, CallFuture, Context, Encoding, Finished, HandlerError, HandlerErrorKind, HandlerResult, Reply,
        ResultKind, enter_call,
        entry::{EntryKind, SourceLocation},
        log_failure, masked_message,
        schema::Violation,
        write_tool_error,
    },
    jsonrpc::{Id, write},
    revision::{Dialect, Feature, encode::Object},
    telemetry,
};

/// The precision of tokio's timers. A call with less time left than this counts as timed out.
const TIMER_PRECISION: Duration = Duration::from_millis(1);

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
                    tracing::warn!(
                        method = &*self.name,
                        error = fault.to_string(),
                        "the call of a notification failed"
                    );
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

impl Context {
    /// Runs a guarded call to completion. Returns `None` if it did not finish within this time. Time spent waiting for
    /// the client does not count.
    pub(crate) async fn run_within(&self, limit: Option<Duration>, mut guarded: GuardedCall) -> Option<Finished> {
        let Some(limit) = limit else { return Some(guarded.await) };
        let start = tokio::time::Instant::now();
        let mut remaining = limit;
        loop {
            if let Ok(finished) = tokio::time::timeout(remaining, &mut guarded).await {
                return Some(finished);
            }
            remaining = (limit + self.waited()).saturating_sub(start.elapsed());
            if remaining < TIMER_PRECISION {
                return None;
            }
        }
    }
}

const BEFORE_ID: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const BEFORE_RESULT: &[u8] = br#","result":"#;

/// Writes a response up to its result. The caller appends the result and a `}`.
pub(crate) fn begin_result(out: &mut Vec<u8>, id: &Id) {
    out.extend_from_slice(BEFORE_ID);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(BEFORE_RESULT);
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
    if let Some(data) = dialect.data(fault) {
        write::plain(error.key("data"), &data);
    }
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

/// The time after which a function that blocks its thread is reported in the log.
const SLOW_AFTER: Duration = Duration::from_millis(100);

/// A future whose panics are caught and become faults, including panics of its destructor, which are only logged.
pub(crate) struct GuardedCall {
    /// `None` once it has finished.
    running: Option<CallFuture>,
    context: Context,
    /// Whether the future belongs to the function, and not to a layer around it.
    is_function: bool,
    /// Whether the call, including its layers, may be handed off to a task.
    hands_off: bool,
    /// Whether a slow poll is logged.
    warns_if_slow: bool,
    /// Whether the call ends with questions to the client, which are being encoded.
    is_suspended: bool,
}

impl GuardedCall {
    /// Guards the future of a call.
    pub(crate) fn new(running: CallFuture, context: Context) -> Self {
        let shared = context.shared();
        let (is_function, hands_off) = (!shared.is_layered, shared.handoff.is_some());
        let mut guarded = Self::layered(running, context, is_function);
        guarded.hands_off = hands_off;
        guarded
    }

    /// Guards the future of a layer, or the future of the function inside of all layers.
    pub(crate) fn layered(running: CallFuture, context: Context, is_function: bool) -> Self {
        let running = Some(running);
        Self { running, context, is_function, hands_off: false, warns_if_slow: false, is_suspended: false }
    }

    /// Logs a warning when the future blocks its thread.
    pub(crate) fn with_slow_warning(mut self) -> Self {
        self.warns_if_slow = true;
        self
    }

    /// Polls the function or its layers. Returns the payload of a panic as an error.
    fn poll_running(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Finished, Box<dyn Any + Send>>> {
        let Some(mut running) = self.running.take() else { return Poll::Pending };
        let start = self.warns_if_slow.then(Instant::now);
        let _entered = telemetry::enter(self.context.shared().unsampled.as_ref());
        let context = self.is_function.then_some(&self.context);
        let poll = || match enter_call(context, || running.as_mut().poll(cx)) {
            Poll::Ready(finished) => Ok(finished),
            Poll::Pending => Err(running),
        };
        let polled = catch_unwind(AssertUnwindSafe(poll));
        if let Some(start) = start {
            warn_if_slow(&self.context.call().name, start.elapsed());
        }
        match polled {
            Ok(Ok(Finished { body, outcome })) => {
                let outcome = with_unmet_requirement(outcome, context);
                Poll::Ready(Ok(Finished { body, outcome }))
            }
            Ok(Err(running)) => {
                self.running = Some(running);
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }

    /// If the call ends with questions to the client, polls the result that contains them. Returns `None` if it does not.
    fn poll_questions(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Finished>> {
        let requester = self.context.shared().requester().filter(|_| self.is_function);
        requester.map_or(Poll::Ready(None), |requester| requester.poll_suspended(cx))
    }

    /// If the function has requested a handoff, moves the rest of the call into a task, and continues with the future of
    /// the response that is sent in place of the result. Returns whether it has.
    pub(super) fn hand_off(&mut self, cx: &mut TaskContext<'_>) -> bool {
        if !self.hands_off {
            return false;
        }
        let handoff = self.context.shared().handoff.as_ref();
        let Some(handoff) = handoff.filter(|handoff| handoff.poll_requested(cx).is_ready()) else { return false };
        self.running = self.running.take().map(|rest| handoff.hand_off(rest, self.context.clone()));
        true
    }
}

impl Future for GuardedCall {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Finished> {
        loop {
            let was_suspended = self.is_suspended;
            if !was_suspended && let Poll::Ready(result) = self.poll_running(cx) {
                let panicked = |panic: Box<dyn Any + Send>| Finished::failed(self.context.call().panic_fault(&*panic));
                return Poll::Ready(result.unwrap_or_else(panicked));
            }
            let questions = self.poll_questions(cx);
            self.is_suspended = questions.is_pending();
            match questions {
                Poll::Ready(Some(finished)) => return Poll::Ready(finished),
                Poll::Pending => return Poll::Pending,
                // There are no questions, or another task has withdrawn them.
                Poll::Ready(None) => {}
            }
            if !self.hand_off(cx) && !was_suspended {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for GuardedCall {
    fn drop(&mut self) {
        let running = self.running.take();
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            tracing::error!(name = &*self.context.call().name, "function panicked while being dropped");
        }
    }
}

/// If a function failed because the client does not meet a requirement, replaces its error with the fault that names
/// the requirement.
pub(super) fn with_unmet_requirement(outcome: HandlerResult, context: Option<&Context>) -> HandlerResult {
    outcome.map_err(|error| match (error.kind(), context.and_then(Context::unmet_requirement)) {
        (HandlerErrorKind::Fault(_) | HandlerErrorKind::InvalidArguments(_), _) | (_, None) => error,
        (_, Some(fault)) => fault.into(),
    })
}

/// Logs a warning if a function has blocked its thread.
pub(super) fn warn_if_slow(name: &str, elapsed: Duration) {
    if elapsed > SLOW_AFTER {
        tracing::warn!(name, ?elapsed, "function blocked its connection: mark it as `blocking`, or make it async");
    }
}

/// The time at which a connection last read the system clock.
///
/// Reading the system clock is a considerable part of the cost of a small call. The transport therefore reads it when a
/// message arrives, and a call reads it when its function returns. The work between the previous reading and a call is
/// counted as part of the call.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The nanoseconds since `start`, which overflow only after centuries.
    elapsed: AtomicU64,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, elapsed: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, now: Instant) {
        self.elapsed.store(self.nanos(now), Ordering::Relaxed);
    }

    /// Returns the time of the last reading.
    pub(crate) fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Reads the system clock, and returns the time since the previous reading.
    pub(crate) fn lap(&self) -> Duration {
        let (before, now) = (self.elapsed.load(Ordering::Relaxed), self.nanos(Instant::now()));
        self.elapsed.store(now, Ordering::Relaxed);
        Duration::from_nanos(now.saturating_sub(before))
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}
