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
    guard::{GuardedCall, warn_if_slow, with_unmet_requirement},
    in_flight::InFlightCall,
    running::{self, RunningCall},
};
use crate::{
    engine::request::{
        context::{ConnectionContext, RequestContext},
        source::Permit,
    },
    error::FaultClass,
    handler::{CallFuture, Finished, HandlerError, HandlerResult, Input, Reply, enter_call, entry::Handler},
};

impl RunningCall<'_> {
    /// Runs an annotated function.
    pub(crate) fn run(
        &self,
        request: &RequestContext<'_>,
        permit: Option<Permit>,
        handler: &Handler,
        input: Input<'_>,
        out: &mut Vec<u8>,
    ) {
        match handler {
            Handler::Sync(function) => self.run_sync(request.connection, |reply| function(input, reply), input, out),
            Handler::Async(function) => match self.start(*function, input) {
                Ok(running) => self.run_future(request, permit, running, out),
                Err(error) => self.fail(request.connection, error, out),
            },
        }
    }

    fn run_sync(
        &self,
        connection: &ConnectionContext,
        function: impl FnOnce(&mut Reply<'_>) -> HandlerResult,
        input: Input<'_>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        running::begin_result(out, &self.id);
        let mut reply = input.reply(out);
        let run = || enter_call(self.context.as_deref(), || function(&mut reply));
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(self.panic_fault(&*panic).into()));
        let outcome = with_unmet_requirement(outcome, self.context.as_deref());
        warn_if_slow(self.name, connection.clock.lap());
        self.end_context();
        report(connection, self.end_response(out, start, outcome));
    }

    /// Writes the response of a call whose function did not run.
    pub(crate) fn fail(&self, connection: &ConnectionContext, error: HandlerError, out: &mut Vec<u8>) {
        report(connection, self.write_response(out, Finished::failed(error)));
    }

    /// Polls a future once. Writes the response if it is ready, and spawns it as a task otherwise.
    pub(crate) fn run_future(
        &self,
        request: &RequestContext<'_>,
        permit: Option<Permit>,
        running: CallFuture,
        out: &mut Vec<u8>,
    ) {
        let mut guarded = self.guard(running);
        // If the future is not ready, the spawned task polls it again with its own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // A call that becomes a task immediately must be handed off before its function runs.
        guarded.hand_off(cx);
        let polled = Pin::new(&mut guarded).poll(cx);
        warn_if_slow(self.name, request.connection.clock.lap());
        let finished = match polled {
            Poll::Ready(result) => self.finished(result),
            Poll::Pending if self.spawn(request, permit, guarded.with_slow_warning()) => return,
            // Only a concurrent HTTP request of the same session can have taken the id.
            Poll::Pending => Finished::failed(running::duplicate_id(&self.id)),
        };
        self.end_context();
        report(request.connection, self.write_response(out, finished));
    }

    /// Spawns the call as a task. Returns `false` if a call with the same id is already in flight.
    fn spawn(&self, request: &RequestContext<'_>, permit: Option<Permit>, guarded: GuardedCall) -> bool {
        let ConnectionContext { in_flight, outbox, .. } = request.connection;
        let call = self.to_owned();
        in_flight.start(call.id.clone(), |number| {
            if let Sink::Batch(batch) = request.sink {
                batch.expect();
            }
            let (context, dialect) = (call.context.clone(), call.encoding.dialect);
            let task = {
                let in_flight = Arc::clone(in_flight);
                async move {
                    let finished = call.run_with_timeout(guarded).await;
                    if let Some(context) = &call.context {
                        if finished.is_none() {
                            context.cancel();
                        } else {
                            context.end();
                        }
                    }
                    let mut response = Vec::new();
                    let fault = call.write_response(&mut response, finished.unwrap_or_else(|| call.timed_out()));
                    in_flight.finish(&call.id, number, response, fault);
                }
            };
            let abort = tokio::spawn(task.in_current_span()).abort_handle();
            let (outbox, sink) = (Arc::clone(outbox), request.sink.clone());
            InFlightCall { number, abort, context, dialect, outbox, sink, _permit: permit }
        })
    }

    fn end_context(&self) {
        if let Some(context) = &self.context {
            context.end();
        }
    }
}

/// Reports a fault to the transport, in addition to the response.
fn report(connection: &ConnectionContext, fault: Option<FaultClass>) {
    if let Some(fault) = fault {
        connection.outbox.set_fault(fault);
    }
}
