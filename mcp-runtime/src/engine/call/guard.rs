//! Guards the future of a call: catches its panics, logs a warning if it blocks, and hands it off to a task on request.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use crate::handler::{CallFuture, Context, Finished, HandlerErrorKind, HandlerResult, enter_call};

/// The time after which a function that blocks its thread is reported in the log.
const SLOW_AFTER: Duration = Duration::from_millis(100);

/// The outcome of a guarded call, or the payload of its panic.
pub(crate) type GuardedResult = Result<Finished, Box<dyn Any + Send>>;

/// A future whose panics are caught, including those of its destructor.
pub(crate) struct GuardedCall {
    /// `None` once it has finished.
    running: Option<CallFuture>,
    /// Whether the call ends with questions to the client, which are being encoded.
    is_suspended: bool,
    /// The context of the function. `None` if an inner guard handles it.
    context: Option<Arc<Context>>,
    /// Whether log events of the function are sent to the client.
    forwards_log: bool,
    /// Whether a slow poll is logged.
    warns_if_slow: bool,
    /// The context of a call that may be handed off to a task, including its layers.
    pub(super) handoff_context: Option<Arc<Context>>,
    name: &'static str,
}

impl GuardedCall {
    /// Guards the future of a function.
    pub(crate) fn new(
        running: CallFuture,
        context: Option<Arc<Context>>,
        forwards_log: bool,
        name: &'static str,
    ) -> Self {
        let running = Some(running);
        Self { running, is_suspended: false, context, forwards_log, warns_if_slow: false, handoff_context: None, name }
    }

    /// Guards the future of a layer. The function that it wraps has its own guard.
    pub(crate) fn layer(running: CallFuture, name: &'static str) -> Self {
        Self::new(running, None, false, name)
    }

    /// Logs a warning when the future blocks its thread.
    pub(crate) fn with_slow_warning(mut self) -> Self {
        self.warns_if_slow = true;
        self
    }

    /// If the call ends with questions to the client, polls the result that contains them. Otherwise, the function
    /// continues, here or in a task.
    fn poll_suspended(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<GuardedResult> {
        let requester = self.context.as_ref().and_then(|context| context.requester());
        let polled = requester.map(|requester| requester.poll_suspended(cx));
        self.is_suspended = matches!(polled, Some(Poll::Pending));
        match polled {
            Some(Poll::Ready(Some(Ok(body)))) => Poll::Ready(Ok(Finished { body, outcome: Ok(()) })),
            Some(Poll::Ready(Some(Err(fault)))) => {
                Poll::Ready(Ok(Finished { body: Vec::new(), outcome: Err(fault.into()) }))
            }
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(None)) | None => self.poll_handoff(cx),
        }
    }

    /// If the function has requested a handoff, moves the rest of the call into a task, and polls the future of the
    /// response that is sent in place of the result.
    pub(super) fn poll_handoff(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<GuardedResult> {
        let Some(context) = &self.handoff_context else { return Poll::Pending };
        let Some(handoff) = context.handoff().filter(|handoff| handoff.poll_requested(cx).is_ready()) else {
            return Poll::Pending;
        };
        let (handoff, context) = (Arc::clone(handoff), Arc::clone(context));
        let Some(rest) = self.running.take() else { return Poll::Pending };
        self.running = Some(handoff.hand_off(rest, context));
        self.poll(cx)
    }
}

impl Future for GuardedCall {
    type Output = GuardedResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<GuardedResult> {
        if self.is_suspended {
            let polled = self.as_mut().poll_suspended(cx);
            if self.is_suspended || polled.is_ready() {
                return polled;
            }
            // Another task has withdrawn the questions, so the function continues.
        }
        let Self { running: slot, context, forwards_log, warns_if_slow, name, .. } = &mut *self;
        let log_context = context.as_deref().filter(|_| *forwards_log);
        let Some(mut running) = slot.take() else { return Poll::Pending };
        let start = warns_if_slow.then(Instant::now);
        let polled = catch_unwind(AssertUnwindSafe(|| match enter_call(log_context, || running.as_mut().poll(cx)) {
            Poll::Ready(finished) => Ok(finished),
            Poll::Pending => Err(running),
        }));
        if let Some(start) = start {
            warn_if_slow(name, start.elapsed());
        }
        match polled {
            Ok(Ok(Finished { body, outcome })) => {
                let outcome = with_unmet_requirement(outcome, context.as_deref());
                Poll::Ready(Ok(Finished { body, outcome }))
            }
            Ok(Err(running)) => {
                *slot = Some(running);
                self.poll_suspended(cx)
            }
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Drop for GuardedCall {
    fn drop(&mut self) {
        let running = self.running.take();
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            tracing::error!(name = self.name, "function panicked while being dropped");
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
