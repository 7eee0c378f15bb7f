//! Runs functions: at once where they stand, as a task only where they have to wait.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
    time::{Duration, Instant},
};

use super::{
    clock::Clock,
    in_flight::{InFlight, InFlightCall, Sink},
    outbox::Outbox,
    request_source::Permit,
    results::{self, id_in_flight},
};
use crate::{
    error::Fault,
    handler::{
        Context, Encoding, Finished, Input, Outcome, Reason, Refusal, Reply, Running, entry::Run, write_tool_error,
    },
    jsonrpc::Id,
    revision::Feature,
};

/// A function that keeps its thread longer than this holds up its connection, and the log says so.
const SLOW: Duration = Duration::from_millis(100);

/// A call that has less time left than this has none.
const PRECISION: Duration = Duration::from_millis(1);

/// One call on its way to an answer.
pub(super) struct Call<'a> {
    pub(super) in_flight: &'a Arc<InFlight>,
    pub(super) outbox: &'a Arc<Outbox>,
    pub(super) clock: &'a Clock,
    pub(super) encoding: &'a Arc<Encoding>,
    pub(super) id: Id<'a>,
    pub(super) sink: &'a Sink,
    pub(super) permit: Option<Permit>,
    pub(super) context: Option<Arc<Context>>,
    /// Whether the log of the function goes to the client.
    pub(super) forwards_log: bool,
    /// How to answer, which outlives the request.
    pub(super) answering: Answering,
}

/// What an answer depends on, beside the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answering {
    /// The name on the wire, for messages; the function's source is in the log.
    pub(super) name: &'static str,
    /// Whether a model reads the answer, so that what it can mend goes back as a result.
    pub(super) is_tool: bool,
    pub(super) timeout: Option<Duration>,
}

impl Call<'_> {
    /// Calls an annotated function; true if the response was written.
    pub(super) fn run(self, run: &Run, input: Input<'_>, out: &mut Vec<u8>) -> bool {
        match run {
            Run::Sync(function) => {
                self.run_at_once(|reply| function(input, reply), input, out);
                true
            }
            Run::Async(function) => {
                let started = self.answering.start(*function, input, self.entered(), &self.id);
                match started {
                    Ok(running) => self.drive(running, out),
                    Err(refusal) => {
                        let start = out.len();
                        self.answering.settle(out, start, self.encoding, &self.id, Err(refusal));
                        true
                    }
                }
            }
        }
    }

    fn run_at_once(&self, function: impl FnOnce(&mut Reply<'_>) -> Outcome, input: Input<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        results::begin(out, &self.id);
        let result = input.contract.result();
        let mut reply = Reply {
            out,
            encoding: self.encoding,
            structured: result.is_some(),
            wraps: result.is_some_and(|result| result.wraps),
            uri: input.uri,
            mime_type: input.contract.mime_type,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| self.enter(|| function(&mut reply))))
            .unwrap_or_else(|panic| Err(self.answering.panicked(&*panic, &self.id).into()));
        let outcome = with_missing_capability(outcome, self.context.as_deref());
        complain_if_slow(self.answering.name, self.clock.lap());
        self.end();
        self.answering.settle(out, start, self.encoding, &self.id, outcome);
    }

    /// Polls a future once, and makes a task of it only if it is not ready; true if the response was written.
    pub(super) fn drive(self, running: Running, out: &mut Vec<u8>) -> bool {
        let guarded = Guarded::new(running, self.context.clone(), self.forwards_log, self.answering.name);
        self.drive_guarded(guarded, out)
    }

    /// Does the same for a future whose function has a guard of its own, within layers.
    pub(super) fn drive_layered(self, running: Running, out: &mut Vec<u8>) -> bool {
        let guarded = Guarded::layer(running, self.answering.name);
        self.drive_guarded(guarded, out)
    }

    fn drive_guarded(mut self, mut running: Guarded, out: &mut Vec<u8>) -> bool {
        running.departing = self.context.as_ref().filter(|context| context.handoff().is_some()).map(Arc::clone);
        // Whatever the future waits for will be asked again with the task's own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // What is to be a task from the start does nothing before it is one.
        let polled = match Pin::new(&mut running).poll_handoff(cx) {
            Poll::Ready(caught) => Poll::Ready(caught),
            Poll::Pending => Pin::new(&mut running).poll(cx),
        };
        complain_if_slow(self.answering.name, self.clock.lap());
        let finished = match polled {
            Poll::Ready(caught) => caught.map_err(|panic| self.answering.panicked(&*panic, &self.id)),
            Poll::Pending => match self.take_off(running.complaining()) {
                true => return false,
                // It was sent twice at once, by two requests over HTTP.
                false => Err(id_in_flight(&self.id)),
            },
        };
        self.end();
        self.answering.finish(out, self.encoding, &self.id, finished);
        true
    }

    /// Makes a task of the call; false if there is one with its id.
    fn take_off(&mut self, running: Guarded) -> bool {
        let permit = self.permit.take();
        let Self { in_flight, outbox, encoding, id, sink, context, answering, .. } = &*self;
        let (id, answering) = (id.to_owned(), *answering);
        in_flight.take_off(id.clone(), |number| {
            if let Sink::Batch(batch) = sink {
                batch.expect();
            }
            let task = {
                let (encoding, in_flight, context) = (Arc::clone(encoding), Arc::clone(in_flight), context.clone());
                async move {
                    let finished = answering.wait(running, context.as_deref(), &id).await;
                    if let Some(context) = context {
                        match finished.is_none() {
                            true => context.cancel(),
                            false => context.end(),
                        }
                    }
                    let mut response = Vec::new();
                    let finished = finished.unwrap_or_else(|| Ok(answering.timed_out(&encoding, &id)));
                    answering.finish(&mut response, &encoding, &id, finished);
                    in_flight.land(&id, number, &response);
                }
            };
            let abort = tokio::spawn(task).abort_handle();
            let (outbox, sink, context) = (Arc::clone(outbox), (*sink).clone(), context.clone());
            InFlightCall { number, abort, context, outbox, sink, _permit: permit }
        })
    }

    /// The context that the function's log goes to.
    fn entered(&self) -> Option<&Context> {
        self.context.as_deref().filter(|_| self.forwards_log)
    }

    fn enter<T>(&self, run: impl FnOnce() -> T) -> T {
        Context::enter(self.entered(), run)
    }

    fn end(&self) {
        if let Some(context) = &self.context {
            context.end();
        }
    }
}

impl Answering {
    /// Decodes the arguments of an async function, and calls it.
    pub(super) fn start(
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
    pub(super) async fn wait(
        &self,
        mut running: Guarded,
        context: Option<&Context>,
        id: &Id<'_>,
    ) -> Option<Result<Finished, Fault>> {
        let caught = |result: Caught| result.map_err(|panic| self.panicked(&*panic, id));
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

    pub(super) fn timed_out(&self, encoding: &Encoding, id: &Id<'_>) -> Finished {
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
    pub(super) fn panicked(&self, panic: &(dyn Any + Send), id: &Id<'_>) -> Fault {
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
    pub(super) fn finish(
        &self,
        out: &mut Vec<u8>,
        encoding: &Encoding,
        id: &Id<'_>,
        finished: Result<Finished, Fault>,
    ) {
        let start = out.len();
        match finished {
            Ok(Finished { body, outcome: Ok(()) }) => results::respond(out, id, &body),
            Ok(Finished { outcome, .. }) => self.settle(out, start, encoding, id, outcome),
            Err(fault) => self.settle(out, start, encoding, id, Err(fault.into())),
        }
    }

    /// Ends the response that was begun at `start`, or replaces it if the call came to no result.
    pub(super) fn settle(&self, out: &mut Vec<u8>, start: usize, encoding: &Encoding, id: &Id<'_>, outcome: Outcome) {
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
        results::refuse(out, encoding.dialect, Some(id), &fault);
    }

    /// Writes what the model is to read, and may mend.
    fn refuse_for_model(&self, out: &mut Vec<u8>, encoding: &Encoding, id: &Id<'_>, text: &str) {
        results::begin(out, id);
        write_tool_error(&mut Reply::plain(out, encoding), text);
        out.push(b'}');
    }
}

/// The call of an async function.
pub(super) type AsyncFn = for<'a> fn(Input<'a>) -> Result<Running, Refusal>;

pub(super) type Caught = Result<Finished, Box<dyn Any + Send>>;

/// A future whose panics are caught, also those of its destructor.
pub(super) struct Guarded {
    /// None once it is over.
    running: Option<Running>,
    /// Of the function that runs; none where that one has a guard of its own.
    context: Option<Arc<Context>>,
    /// Whether the log of the function goes to the client.
    forwards_log: bool,
    /// Whether it is said that the future was slow.
    complains: bool,
    /// The context of a call whose rest may become a task, with everything that stands around it.
    departing: Option<Arc<Context>>,
    name: &'static str,
}

impl Guarded {
    /// Guards a function.
    pub(super) fn new(running: Running, context: Option<Arc<Context>>, forwards_log: bool, name: &'static str) -> Self {
        Self { running: Some(running), context, forwards_log, complains: false, departing: None, name }
    }

    /// Guards what stands around a function, and so has no part in its context.
    pub(super) fn layer(running: Running, name: &'static str) -> Self {
        Self::new(running, None, false, name)
    }

    /// Says when the future was slow.
    pub(super) fn complaining(mut self) -> Self {
        self.complains = true;
        self
    }

    /// Goes on with what the call ends with, if the rest of it is to be a task.
    fn poll_handoff(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Caught> {
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

impl Future for Guarded {
    type Output = Caught;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Caught> {
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

impl Drop for Guarded {
    fn drop(&mut self) {
        let running = self.running.take();
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            tracing::error!(name = self.name, "a function panicked while it was dropped");
        }
    }
}

/// Answers with what the client lacks where a function failed of it, whose own error holds no more than a sentence.
fn with_missing_capability(outcome: Outcome, context: Option<&Context>) -> Outcome {
    outcome.map_err(|refusal| match (refusal.reason(), context.and_then(Context::missing_capability)) {
        (Reason::Failed { .. }, Some(fault)) => fault.into(),
        _ => refusal,
    })
}

/// Says that a function kept its thread to itself.
fn complain_if_slow(name: &str, elapsed: Duration) {
    if elapsed > SLOW {
        tracing::warn!(
            name,
            ?elapsed,
            "a function held up its connection: mark it `blocking`, or let it wait asynchronously"
        );
    }
}
