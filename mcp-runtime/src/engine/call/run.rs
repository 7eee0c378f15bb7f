//! Runs calls: to completion in place if possible, and as a tokio task only if they have to wait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
};

use tracing::Instrument as _;

use super::{
    batch::Sink,
    callee::Callee,
    clock::Clock,
    guard::{GuardedCall, warn_if_slow, with_unmet_requirement},
    in_flight::{InFlight, InFlightCall},
    response,
};
use crate::{
    engine::{outbox::Outbox, request::source::Permit},
    error::FaultClass,
    handler::{CallFuture, Context, Encoding, HandlerResult, Input, Reply, enter_call, entry::Handler},
    jsonrpc::Id,
};

/// A call that is ready to run, with everything that its response depends on.
pub(crate) struct PreparedCall<'a> {
    pub(crate) in_flight: &'a Arc<InFlight>,
    pub(crate) outbox: &'a Arc<Outbox>,
    pub(crate) clock: &'a Clock,
    pub(crate) encoding: &'a Arc<Encoding>,
    pub(crate) id: Id<'a>,
    pub(crate) sink: &'a Sink,
    pub(crate) permit: Option<Permit>,
    pub(crate) context: Option<Arc<Context>>,
    /// Whether log events of the function are sent to the client.
    pub(crate) forwards_log: bool,
    pub(crate) callee: Callee,
}

impl PreparedCall<'_> {
    /// Runs an annotated function.
    pub(crate) fn run(self, handler: &Handler, input: Input<'_>, out: &mut Vec<u8>) {
        match handler {
            Handler::Sync(function) => self.run_sync(|reply| function(input, reply), input, out),
            Handler::Async(function) => match self.callee.start(*function, input, self.log_context(), &self.id) {
                Ok(running) => self.run_future(running, out),
                Err(error) => {
                    let start = out.len();
                    let fault = self.callee.end_response(out, start, self.encoding, &self.id, Err(error));
                    self.report(fault);
                }
            },
        }
    }

    fn run_sync(&self, function: impl FnOnce(&mut Reply<'_>) -> HandlerResult, input: Input<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        response::begin_result(out, &self.id);
        let result = input.contract.output_schema();
        let mut reply = Reply {
            out,
            encoding: self.encoding,
            structured: result.is_some(),
            wraps: result.is_some_and(|result| result.wraps),
            uri: input.uri,
            mime_type: input.contract.mime_type,
        };
        let run = || enter_call(self.log_context(), || function(&mut reply));
        let outcome = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(self.callee.panic_fault(&*panic, &self.id).into()));
        let outcome = with_unmet_requirement(outcome, self.context.as_deref());
        warn_if_slow(self.callee.name, self.clock.lap());
        self.end_context();
        self.report(self.callee.end_response(out, start, self.encoding, &self.id, outcome));
    }

    /// Polls a future once. Writes the response if it is ready, and spawns it as a task otherwise.
    pub(crate) fn run_future(self, running: CallFuture, out: &mut Vec<u8>) {
        let call = GuardedCall::new(running, self.context.clone(), self.forwards_log, self.callee.name);
        self.run_guarded(call, out);
    }

    /// Runs the future of a layer like [`run_future`](Self::run_future). The function that it wraps has its own guard.
    pub(crate) fn run_layered(self, running: CallFuture, out: &mut Vec<u8>) {
        let call = GuardedCall::layer(running, self.callee.name);
        self.run_guarded(call, out);
    }

    fn run_guarded(mut self, mut call: GuardedCall, out: &mut Vec<u8>) {
        call.handoff_context = self.context.as_ref().filter(|context| context.handoff().is_some()).map(Arc::clone);
        // If the future is not ready, the spawned task polls it again with its own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // A call that becomes a task immediately must be handed off before its function runs.
        let polled = match Pin::new(&mut call).poll_handoff(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => Pin::new(&mut call).poll(cx),
        };
        warn_if_slow(self.callee.name, self.clock.lap());
        let finished = match polled {
            Poll::Ready(result) => result.map_err(|panic| self.callee.panic_fault(&*panic, &self.id)),
            Poll::Pending if self.spawn(call.with_slow_warning()) => return,
            // Only a concurrent HTTP request of the same session can have taken the id.
            Poll::Pending => Err(response::duplicate_id(&self.id)),
        };
        self.end_context();
        self.report(self.callee.write_response(out, self.encoding, &self.id, finished));
    }

    /// Spawns the call as a task. Returns `false` if a call with the same id is already in flight.
    fn spawn(&mut self, call: GuardedCall) -> bool {
        let permit = self.permit.take();
        let Self { in_flight, outbox, encoding, id, sink, context, callee, .. } = &*self;
        let (id, callee) = (id.to_owned(), *callee);
        in_flight.start(id.clone(), |number| {
            if let Sink::Batch(batch) = sink {
                batch.expect();
            }
            let task = {
                let (encoding, in_flight, context) = (Arc::clone(encoding), Arc::clone(in_flight), context.clone());
                async move {
                    let finished = callee.run_with_timeout(call, context.as_deref(), &id).await;
                    if let Some(context) = context {
                        if finished.is_none() {
                            context.cancel();
                        } else {
                            context.end();
                        }
                    }
                    let mut response = Vec::new();
                    let finished = finished.unwrap_or_else(|| Ok(callee.timed_out(&encoding, &id)));
                    let fault = callee.write_response(&mut response, &encoding, &id, finished);
                    in_flight.finish(&id, number, response, fault);
                }
            };
            let abort = tokio::spawn(task.in_current_span()).abort_handle();
            let (outbox, sink, context) = (Arc::clone(outbox), (*sink).clone(), context.clone());
            InFlightCall { number, abort, context, dialect: encoding.dialect, outbox, sink, _permit: permit }
        })
    }

    /// Returns the context that receives the function's log events.
    fn log_context(&self) -> Option<&Context> {
        self.context.as_deref().filter(|_| self.forwards_log)
    }

    /// Reports a fault to the transport, in addition to the response.
    fn report(&self, fault: Option<FaultClass>) {
        if let Some(fault) = fault {
            self.outbox.set_fault(fault);
        }
    }

    fn end_context(&self) {
        if let Some(context) = &self.context {
            context.end();
        }
    }
}
