//! Prepares calls: checks the limits, creates the context of the function and its connection to the client, and starts the
//! call.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use tracing::{Instrument as _, Span};

use super::{
    in_flight::Sink,
    response,
    running::{GuardedCall, warn_if_slow, with_unmet_requirement},
};
use crate::{
    counters::{Counted, Counter},
    engine::{
        client_requests::requester,
        layers::{self, Next},
        request::{
            context::{ConnectionContext, RequestContext},
            params::Params,
            source::Permit,
            start::{CallSpan, call_span},
        },
    },
    error::Fault,
    handler::{
        Call, CallFuture, ClientRequester, Context, Finished, Function, HandlerError, HandlerResult, Input,
        LogThreshold, Reply, SharedCall, enter_call, entry::Handler,
    },
    revision::Feature,
};

/// Calls a function, which can send requests to its client. `subject` is the name of the tool or prompt, or the URI of
/// the resource; the arguments are an object, as JSON.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight or the transport has no capacity left,
/// and a fault if the client's answers or its request state are invalid.
pub(crate) fn call_function(
    request: &RequestContext<'_>,
    function: &Arc<Function>,
    subject: Cow<'static, str>,
    arguments: &str,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let requester = requester(request, function, &subject, arguments, function.uses_context)?;
    call_with(request, function, subject, arguments, requester, out)
}

/// Calls a function. Without a requester, it cannot send requests to its client.
pub(crate) fn call_with(
    request: &RequestContext<'_>,
    function: &Arc<Function>,
    subject: Cow<'static, str>,
    arguments: &str,
    requester: Option<Arc<dyn ClientRequester>>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (call, next) = prepare(request, function, subject, arguments)?;
    let uses_context = function.uses_context || request.engine().profile.log_targets.is_some();
    if let (None, Handler::Sync(handler), false) = (&next, &function.common().handler, uses_context) {
        check_capacity(request)?;
        call.run_sync(request, None, *handler, Input::new(function, &call, None, arguments), out);
        return Ok(());
    }
    let shared = share(request, call, function.uses_context, next.is_some());
    run(request, function, &Context::new(SharedCall { requester, ..shared }), next, arguments, out)
}

/// Prepares the call of a function. Also returns the continuation if the future of the call is polled through it.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
#[inline]
pub(crate) fn prepare(
    request: &RequestContext<'_>,
    function: &Arc<Function>,
    subject: Cow<'static, str>,
    arguments: &str,
) -> Result<(Call, Option<Next>), Fault> {
    let next = request.engine().profile.layers.for_call(function, arguments);
    check_in_flight(request)?;
    request.operation.set_function(function);
    // All fields, since `..method_call(…)` would build and drop what is replaced.
    let call = Call {
        name: function.name.clone(),
        kind: Some(function.kind()),
        function: Some(Arc::clone(function)),
        subject,
        id: request.id.clone(),
        argument_bytes: arguments.len(),
        timeout: timeout(request, function.common().timeout),
        encoding: Arc::clone(request.encoding()),
        states: request.engine().states.of_function(function),
        failure: OnceLock::new(),
    };
    Ok((call, next))
}

/// Returns the timeout of a function, or else the default of the server.
pub(crate) fn timeout(request: &RequestContext<'_>, declared: Option<Duration>) -> Option<Duration> {
    declared.or(request.engine().profile.limits.timeout)
}

/// Runs a prepared call.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the transport has no capacity left.
pub(crate) fn run(
    request: &RequestContext<'_>,
    function: &Function,
    context: &Context,
    next: Option<Next>,
    arguments: &str,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let call = context.call();
    if let (None, Handler::Sync(handler)) = (&next, &function.common().handler) {
        check_capacity(request)?;
        let input = Input::new(function, call, Some(context), arguments);
        call.run_sync(request, Some(context), *handler, input, out);
        return Ok(());
    }
    let permit = admit(request)?;
    match context.start(function, next, arguments) {
        Ok(running) => context.run_future(request, permit, running, out),
        Err(error) => {
            context.shared().lifetime.complete();
            call.fail(request, error, out);
        }
    }
    Ok(())
}

/// Returns the call of a method without a function.
pub(crate) fn method_call(
    request: &RequestContext<'_>,
    name: impl Into<Cow<'static, str>>,
    timeout: Option<Duration>,
) -> Call {
    let (encoding, states) = (Arc::clone(request.encoding()), Arc::clone(&request.engine().states));
    Call { timeout, ..Call::new(name, request.id.clone(), encoding, states) }
}

/// Shares a call, which cannot send requests to its client. `is_read` is whether its function can read the request;
/// layers can.
pub(crate) fn share(request: &RequestContext<'_>, call: Call, is_read: bool, is_layered: bool) -> SharedCall {
    let source = request.connection.source.as_ref();
    let Params { meta, input_responses, request_state, .. } = request.params;
    let profile = &request.engine().profile;
    let is_read = is_read || is_layered;
    let caller = if is_read { request.caller() } else { request.unnamed_caller() };
    SharedCall {
        log: match meta.level() {
            None if request.has(Feature::LogLevel) => LogThreshold::Session,
            level => LogThreshold::Request(level.filter(|_| !request.id.is_of_notification())),
        },
        log_targets: profile.log_targets.clone(),
        meta: meta.whole.filter(|_| is_read).map(|meta| meta.text().into()),
        capabilities: request.session_capabilities(),
        unsampled: request.operation.unsampled.clone(),
        telemetry: profile.telemetry.clone().filter(|_| is_read),
        is_continued: input_responses.is_some() || request_state.is_some(),
        is_layered,
        access: source.filter(|source| source.identity().is_some()).map(|_| Arc::clone(&profile.access)),
        ..SharedCall::new(call, Arc::clone(&request.connection.outbox) as _, caller)
    }
}

/// Reserves capacity for a call at the transport, if the transport limits it.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if there is no capacity left.
pub(crate) fn admit(request: &RequestContext<'_>) -> Result<Option<Permit>, Fault> {
    request.connection.source.as_ref().map(|source| source.admit()).transpose()
}

/// Checks that the transport has capacity for a call that completes in place, without reserving it.
fn check_capacity(request: &RequestContext<'_>) -> Result<(), Fault> {
    request.connection.source.as_ref().map_or(Ok(()), |source| source.check_capacity())
}

/// Checks that the connection may start another call.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
pub(crate) fn check_in_flight(request: &RequestContext<'_>) -> Result<(), Fault> {
    let limit = request.engine().profile.limits.in_flight;
    if request.connection.in_flight.count() >= limit {
        return Err(Fault::refused(
            Counter::RefusedCalls,
            format!("too many requests in flight: the limit is {limit}"),
        ));
    }
    Ok(())
}

/// Answers a request with the result of a future that calls no function, and therefore usually needs no permit.
pub(crate) fn answer_with(
    request: &RequestContext<'_>,
    name: impl Into<Cow<'static, str>>,
    timeout: Option<Duration>,
    permit: Option<Permit>,
    result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
    out: &mut Vec<u8>,
) {
    // No function runs, so that no event is one of a function.
    let shared = SharedCall { log_targets: None, ..share(request, method_call(request, name, timeout), false, false) };
    let context = Context::new(shared);
    let running = Box::pin(async move { Finished::from(result.await) });
    context.run_future(request, permit, running, out);
}

/// The generated entry point of a synchronous function.
pub(super) type SyncFn = for<'a, 'b, 'c> fn(Input<'a>, &'b mut Reply<'c>) -> HandlerResult;

impl Call {
    /// Runs a synchronous function.
    pub(super) fn run_sync(
        &self,
        request: &RequestContext<'_>,
        context: Option<&Context>,
        function: SyncFn,
        input: Input<'_>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        response::begin_result(out, &self.id);
        let body = out.len();
        let mut reply = Reply::new(out, self);
        let span = match &request.operation.unsampled {
            None => call_span(|| format!("function {}", self.name)),
            Some(_) => Span::none(),
        };
        let _count = Counted::new(Counter::ActiveCalls);
        let run = || span.in_scope(|| enter_call(context, || function(input, &mut reply)));
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(self.panic_fault(&*panic).into()));
        let mut outcome = with_unmet_requirement(outcome, context);
        warn_if_slow(self, request.connection.clock.lap());
        if self.encoding.checks_results
            && let Ok(kind) = &outcome
            && let Err(fault) = self.check_result(kind, &out[body..])
        {
            outcome = Err(fault.into());
        }
        if let Some(context) = context {
            context.shared().lifetime.complete();
        }
        request.end(&self.end_response(out, start, outcome));
    }

    /// Writes the response of a call whose function did not run.
    pub(crate) fn fail(&self, request: &RequestContext<'_>, error: HandlerError, out: &mut Vec<u8>) {
        request.end(&self.write_response(out, Finished::failed(error)));
    }
}

impl Context {
    /// Creates the future of a call with layers. Without any, decodes the arguments and creates the future of the function.
    pub(crate) fn start(
        &self,
        function: &Function,
        next: Option<Next>,
        arguments: &str,
    ) -> Result<CallFuture, HandlerError> {
        if let Some(next) = next {
            return Ok(next.start(layers::Call::new(self.clone(), arguments)));
        }
        let (call, handler) = (self.call(), &function.common().handler);
        let input = Input::new(function, call, Some(self), arguments);
        let span = CallSpan::new(self, || format!("function {}", call.name));
        let start = || span.in_scope(|| enter_call(Some(self), || handler.start(input, self.clone())));
        let started = catch_unwind(AssertUnwindSafe(start));
        let running = started.unwrap_or_else(|panic| Err(call.panic_fault(&*panic).into()))?;
        Ok(span.around(running))
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
        let count = Counted::new(Counter::ActiveCalls);
        let mut guarded = GuardedCall::new(running, self.clone());
        // If the future is not ready, the spawned task polls it again with its own waker.
        let cx = &mut TaskContext::from_waker(Waker::noop());
        // A call that becomes a task immediately must be handed off before its function runs.
        guarded.hand_off(cx);
        let polled = Pin::new(&mut guarded).poll(cx);
        warn_if_slow(call, request.connection.clock.lap());
        let finished = match polled {
            Poll::Ready(finished) => finished,
            Poll::Pending => match self.spawn(request, permit, count, guarded.with_slow_warning()) {
                Ok(()) => return,
                // Only a concurrent HTTP request of the same session can have taken the id.
                Err(sink) => {
                    request.operation.restore(&sink.operation);
                    Finished::failed(response::duplicate_id(&call.id))
                }
            },
        };
        self.shared().lifetime.complete();
        request.end(&call.write_response(out, finished));
    }

    /// Spawns the call as a task.
    ///
    /// # Errors
    ///
    /// Returns the destination of the response if a call with the same id is already in flight.
    fn spawn(
        &self,
        request: &RequestContext<'_>,
        permit: Option<Permit>,
        count: Counted,
        guarded: GuardedCall,
    ) -> Result<(), Box<Sink>> {
        let ConnectionContext { in_flight, outbox, .. } = request.connection;
        let operation = request.operation.take();
        let batch = request.batch.cloned();
        let sink = Sink { outbox: Arc::clone(outbox), batch, _permit: permit, operation, _count: count };
        in_flight.start(self, sink, || {
            let (context, in_flight) = (self.clone(), Arc::clone(in_flight));
            let task = async move {
                let call = context.call();
                let finished = context.run_within(call.timeout, guarded).await;
                if finished.is_none() {
                    context.shared().lifetime.cancel();
                } else {
                    context.shared().lifetime.complete();
                }
                let mut response = Vec::new();
                let finished = finished.unwrap_or_else(|| call.timed_out(call.timeout));
                let ending = call.write_response(&mut response, finished);
                in_flight.finish(&context, response, &ending);
            };
            tokio::spawn(task.in_current_span()).abort_handle()
        })
    }
}
