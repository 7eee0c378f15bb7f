//! Guards a call against panics, and watches how long it blocks its thread.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use crate::handler::{Context, Finished, Outcome, Reason, Running};

/// A function that keeps its thread longer than this holds up its connection, and the log says so.
const SLOW: Duration = Duration::from_millis(100);

pub(crate) type GuardedResult = Result<Finished, Box<dyn Any + Send>>;

/// A future whose panics are caught, also those of its destructor.
pub(crate) struct GuardedCall {
    /// None once it is over.
    running: Option<Running>,
    /// Of the function that runs; none where that one has a guard of its own.
    context: Option<Arc<Context>>,
    /// Whether the log of the function goes to the client.
    forwards_log: bool,
    /// Whether it is said that the future was slow.
    complains: bool,
    /// The context of a call whose rest may become a task, with everything that stands around it.
    pub(crate) departing: Option<Arc<Context>>,
    name: &'static str,
}

impl GuardedCall {
    /// Guards a function.
    pub(crate) fn new(running: Running, context: Option<Arc<Context>>, forwards_log: bool, name: &'static str) -> Self {
        Self { running: Some(running), context, forwards_log, complains: false, departing: None, name }
    }

    /// Guards what stands around a function, and so has no part in its context.
    pub(crate) fn layer(running: Running, name: &'static str) -> Self {
        Self::new(running, None, false, name)
    }

    /// Says when the future was slow.
    pub(crate) fn complaining(mut self) -> Self {
        self.complains = true;
        self
    }

    /// Goes on with what the call ends with, if the rest of it is to be a task.
    pub(crate) fn poll_handoff(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<GuardedResult> {
        let Some(context) = &self.departing else { return Poll::Pending };
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
        let Self { running: slot, context, forwards_log, complains, name, .. } = &mut *self;
        let entered = context.as_deref().filter(|_| *forwards_log);
        let Some(mut running) = slot.take() else { return Poll::Pending };
        let began = complains.then(Instant::now);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let poll = Context::enter(entered, || running.as_mut().poll(cx));
            match poll {
                Poll::Ready(finished) => Ok(finished),
                Poll::Pending => Err(running),
            }
        }));
        if let Some(began) = began {
            complain_if_slow(name, began.elapsed());
        }
        match polled {
            Ok(Ok(Finished { body, outcome })) => {
                let outcome = with_missing_capability(outcome, context.as_deref());
                Poll::Ready(Ok(Finished { body, outcome }))
            }
            Ok(Err(running)) => {
                *slot = Some(running);
                let requester = context.as_ref().and_then(|context| context.requester());
                match requester.map(|requester| requester.poll_suspended(cx)) {
                    Some(Poll::Ready(Ok(body))) => Poll::Ready(Ok(Finished { body, outcome: Ok(()) })),
                    Some(Poll::Ready(Err(fault))) => {
                        Poll::Ready(Ok(Finished { body: Vec::new(), outcome: Err(fault.into()) }))
                    }
                    Some(Poll::Pending) | None => self.poll_handoff(cx),
                }
            }
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Drop for GuardedCall {
    fn drop(&mut self) {
        let running = self.running.take();
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            tracing::error!(name = self.name, "a function panicked while it was dropped");
        }
    }
}

/// Answers with what the client lacks where a function failed of it, whose own error holds no more than a sentence.
pub(crate) fn with_missing_capability(outcome: Outcome, context: Option<&Context>) -> Outcome {
    outcome.map_err(|refusal| match (refusal.reason(), context.and_then(Context::missing_capability)) {
        (Reason::Failed { .. }, Some(fault)) => fault.into(),
        _ => refusal,
    })
}

/// Says that a function kept its thread to itself.
pub(crate) fn complain_if_slow(name: &str, elapsed: Duration) {
    if elapsed > SLOW {
        tracing::warn!(
            name,
            ?elapsed,
            "a function held up its connection: mark it `blocking`, or let it wait asynchronously"
        );
    }
}
