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
    running,
};
use crate::{
    engine::request::{
        context::{ConnectionContext, RequestContext},
        source::Permit,
    },
    error::FaultClass,
    handler::{Call, CallFuture, Context, Finished, HandlerError, HandlerResult, Input, Reply, enter_call},
};

/// The generated entry point of a synchronous function.
pub(super) type SyncFn = for<'a, 'b, 'c> fn(Input<'a>, &'b mut Reply<'c>) -> HandlerResult;
/// The generated entry point of an async function.
pub(crate) type AsyncFn = for<'a> fn(Input<'a>, Context) -> Result<CallFuture, HandlerError>;

impl Call {
    /// Runs a synchronous function.
    pub(super) fn run_sync(
        &self,
        connection: &ConnectionContext,
        context: Option<&Context>,
        function: SyncFn,
        input: Input<'_>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        running::begin_result(out, &self.id);
        let body = out.len();
        let mut reply = Reply::new(out, self);
        let run = || enter_call(context, || function(input, &mut reply));
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(self.panic_fault(&*panic).into()));
        let mut outcome = with_unmet_requirement(outcome, context);
        if self.encoding.checks_results
            && let Ok(kind) = &outcome
            && let Err(fault) = self.check_result(kind, &out[body..])
        {
            outcome = Err(fault.into());
        }
        warn_if_slow(self.name, connection.clock.lap());
        if let Some(context) = context {
            context.end();
        }
        report(connection, self.end_response(out, start, outcome));
    }

    /// Writes the response of a call whose function did not run.
    pub(crate) fn fail(&self, connection: &ConnectionContext, error: HandlerError, out: &mut Vec<u8>) {
        report(connection, self.write_response(out, Finished::failed(error)));
    }
}

impl Context {
    /// Decodes the arguments of an async function and creates its future.
    pub(crate) fn start(&self, function: AsyncFn, input: Input<'_>) -> Result<CallFuture, HandlerError> {
        catch_unwind(AssertUnwindSafe(|| enter_call(Some(self), || function(input, self.clone()))))
            .unwrap_or_else(|panic| Err(self.call().panic_fault(&*panic).into()))
    }

    /// Polls a future once. Writes the response if it is ready, and spawns it as a task otherwise.
    pub(crate) fn run_future(
        &self,
        request: &RequestContext<'_>,
        permit: Option<Permit>,
        running: CallFuture,
        out: &mut Vec<u8>,
    ) {
        let call = self.call();
        let mut guarded = GuardedCall::new(running, self.clone());
        // If the future is not ready, the spawned task polls it again with its own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // A call that becomes a task immediately must be handed off before its function runs.
        guarded.hand_off(cx);
        let polled = Pin::new(&mut guarded).poll(cx);
        warn_if_slow(call.name, request.connection.clock.lap());
        let finished = match polled {
            Poll::Ready(result) => call.finished(result),
            Poll::Pending if self.spawn(request, permit, guarded.with_slow_warning()) => return,
            // Only a concurrent HTTP request of the same session can have taken the id.
            Poll::Pending => Finished::failed(running::duplicate_id(&call.id)),
        };
        self.end();
        report(request.connection, call.write_response(out, finished));
    }

    /// Spawns the call as a task. Returns `false` if a call with the same id is already in flight.
    fn spawn(&self, request: &RequestContext<'_>, permit: Option<Permit>, guarded: GuardedCall) -> bool {
        let ConnectionContext { in_flight, outbox, .. } = request.connection;
        let sink = Sink { outbox: Arc::clone(outbox), batch: request.batch.cloned(), _permit: permit };
        in_flight.start(self, sink, || {
            let (context, in_flight) = (self.clone(), Arc::clone(in_flight));
            let task = async move {
                let call = context.call();
                let finished = context.run_within(call.timeout, guarded).await;
                if finished.is_none() {
                    context.cancel();
                } else {
                    context.end();
                }
                let mut response = Vec::new();
                let finished = finished.unwrap_or_else(|| call.timed_out(call.timeout));
                let fault = call.write_response(&mut response, finished);
                in_flight.finish(&context, response, fault);
            };
            tokio::spawn(task.in_current_span()).abort_handle()
        })
    }
}

/// Reports a fault to the transport, in addition to the response.
fn report(connection: &ConnectionContext, fault: Option<FaultClass>) {
    if let Some(fault) = fault {
        connection.outbox.set_fault(fault);
    }
}
