//! Runs calls: to completion on the spot if possible, as a tokio task only if they have to wait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
};

use super::{
    batch::Sink,
    callee::Callee,
    clock::Clock,
    guard::{GuardedCall, complain_if_slow, with_missing_capability},
    in_flight::{InFlight, InFlightCall},
    response::{self, id_in_flight},
};
use crate::{
    engine::{outbox::Outbox, request::source::Permit},
    handler::{Context, Encoding, Input, Outcome, Reply, Running, entry::Run},
    jsonrpc::Id,
};

/// One call on its way to an answer.
pub(crate) struct PreparedCall<'a> {
    pub(crate) in_flight: &'a Arc<InFlight>,
    pub(crate) outbox: &'a Arc<Outbox>,
    pub(crate) clock: &'a Clock,
    pub(crate) encoding: &'a Arc<Encoding>,
    pub(crate) id: Id<'a>,
    pub(crate) sink: &'a Sink,
    pub(crate) permit: Option<Permit>,
    pub(crate) context: Option<Arc<Context>>,
    /// Whether the log of the function goes to the client.
    pub(crate) forwards_log: bool,
    /// How to answer, which outlives the request.
    pub(crate) callee: Callee,
}

impl PreparedCall<'_> {
    /// Calls an annotated function; true if the response was written.
    pub(crate) fn run(self, run: &Run, input: Input<'_>, out: &mut Vec<u8>) -> bool {
        match run {
            Run::Sync(function) => {
                self.run_at_once(|reply| function(input, reply), input, out);
                true
            }
            Run::Async(function) => {
                let started = self.callee.start(*function, input, self.entered(), &self.id);
                match started {
                    Ok(running) => self.drive(running, out),
                    Err(refusal) => {
                        let start = out.len();
                        self.callee.settle(out, start, self.encoding, &self.id, Err(refusal));
                        true
                    }
                }
            }
        }
    }

    fn run_at_once(&self, function: impl FnOnce(&mut Reply<'_>) -> Outcome, input: Input<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        response::begin(out, &self.id);
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
            .unwrap_or_else(|panic| Err(self.callee.panicked(&*panic, &self.id).into()));
        let outcome = with_missing_capability(outcome, self.context.as_deref());
        complain_if_slow(self.callee.name, self.clock.lap());
        self.end();
        self.callee.settle(out, start, self.encoding, &self.id, outcome);
    }

    /// Polls a future once, and makes a task of it only if it is not ready; true if the response was written.
    pub(crate) fn drive(self, running: Running, out: &mut Vec<u8>) -> bool {
        let guarded = GuardedCall::new(running, self.context.clone(), self.forwards_log, self.callee.name);
        self.drive_guarded(guarded, out)
    }

    /// Does the same for a future whose function has a guard of its own, within layers.
    pub(crate) fn drive_layered(self, running: Running, out: &mut Vec<u8>) -> bool {
        let guarded = GuardedCall::layer(running, self.callee.name);
        self.drive_guarded(guarded, out)
    }

    fn drive_guarded(mut self, mut running: GuardedCall, out: &mut Vec<u8>) -> bool {
        running.departing = self.context.as_ref().filter(|context| context.handoff().is_some()).map(Arc::clone);
        // Whatever the future waits for will be asked again with the task's own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // What is to be a task from the start does nothing before it is one.
        let polled = match Pin::new(&mut running).poll_handoff(cx) {
            Poll::Ready(caught) => Poll::Ready(caught),
            Poll::Pending => Pin::new(&mut running).poll(cx),
        };
        complain_if_slow(self.callee.name, self.clock.lap());
        let finished = match polled {
            Poll::Ready(caught) => caught.map_err(|panic| self.callee.panicked(&*panic, &self.id)),
            Poll::Pending => match self.take_off(running.complaining()) {
                true => return false,
                // It was sent twice at once, by two requests over HTTP.
                false => Err(id_in_flight(&self.id)),
            },
        };
        self.end();
        self.callee.finish(out, self.encoding, &self.id, finished);
        true
    }

    /// Makes a task of the call; false if there is one with its id.
    fn take_off(&mut self, running: GuardedCall) -> bool {
        let permit = self.permit.take();
        let Self { in_flight, outbox, encoding, id, sink, context, callee, .. } = &*self;
        let (id, callee) = (id.to_owned(), *callee);
        in_flight.take_off(id.clone(), |number| {
            if let Sink::Batch(batch) = sink {
                batch.expect();
            }
            let task = {
                let (encoding, in_flight, context) = (Arc::clone(encoding), Arc::clone(in_flight), context.clone());
                async move {
                    let finished = callee.wait(running, context.as_deref(), &id).await;
                    if let Some(context) = context {
                        match finished.is_none() {
                            true => context.cancel(),
                            false => context.end(),
                        }
                    }
                    let mut response = Vec::new();
                    let finished = finished.unwrap_or_else(|| Ok(callee.timed_out(&encoding, &id)));
                    callee.finish(&mut response, &encoding, &id, finished);
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
