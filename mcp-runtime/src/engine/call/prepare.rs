//! Prepares calls: checks the limits, and creates the function's context and its connection to the client.

use std::{sync::Arc, time::Duration};

use super::running::RunningCall;
use crate::{
    engine::{
        client_requests::{Binding, RoundParams, RoundsRequester},
        layers::{Call, CallInfo, CalledFunction, Next},
        live_requester::LiveRequester,
        request::{context::RequestContext, params::Params, source::Permit},
    },
    error::Fault,
    handler::{
        CallEnv, ClientRequester, Context, ContextParts, Encoding, Finished, HandlerError, Input, LogThreshold,
        ServerFnOutput, StateMap,
        entry::{CommonEntry, EntryKind, Handler, Hints, ServerFnEntry},
        run_blocking,
    },
    jsonrpc::RawJson,
    registry::Function,
    revision::Feature,
};

/// A request that calls a function.
#[derive(Clone, Copy)]
pub(crate) struct CallRequest<'a> {
    pub(crate) request: &'a RequestContext<'a>,
    pub(crate) function: &'a Function,
    pub(crate) method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: &'a str,
    /// The URI of the resource. Empty for tools and prompts.
    pub(crate) uri: &'a str,
    pub(crate) hints: Hints,
    /// The arguments: an object, as JSON.
    pub(crate) arguments: &'a str,
}

impl<'a> CallRequest<'a> {
    /// Calls the function, which can send requests to its client.
    pub(crate) fn call(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let requester = self.requester(self.function.uses_context)?;
        self.call_with(requester, out)
    }

    /// Calls the function. Without a requester, it cannot send requests to its client.
    pub(crate) fn call_with(
        &self,
        requester: Option<Arc<dyn ClientRequester>>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (call, next) = self.prepare(false, |parts| ContextParts { requester, ..parts })?;
        self.run(&call, next, out)
    }

    /// Prepares the call. `complete` completes the context of the function. Also returns the continuation if the future
    /// of the call is polled through it.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
    pub(crate) fn prepare(
        &self,
        uses_context: bool,
        complete: impl FnOnce(ContextParts) -> ContextParts,
    ) -> Result<(RunningCall<'a>, Option<Next>), Fault> {
        let Self { request, function, .. } = *self;
        let next = request.engine().profile.layers.for_call(function, self.arguments);
        let parts = || {
            let scopes = function.scopes.clone();
            complete(ContextParts { scopes, ..context_parts(request, self.name) })
        };
        let uses_context = uses_context || function.uses_context;
        let mut call = prepare(request, (function.name, function.common), Some(function.kind), uses_context, parts)?;
        call.is_layered = next.is_some();
        Ok((call, next))
    }

    /// Runs the prepared call.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the transport has no capacity left.
    pub(crate) fn run(&self, call: &RunningCall<'_>, next: Option<Next>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let handler = &self.function.common.handler;
        let permit = if next.is_none() && matches!(handler, Handler::Sync(_)) {
            check_capacity(self.request)?;
            None
        } else {
            admit(self.request)?
        };
        match next {
            Some(next) => {
                let running = next.start(Call::new(self.info(call), self.arguments));
                call.run_future(self.request, permit, running, out);
            }
            None => call.run(self.request, permit, handler, self.input(call), out),
        }
        Ok(())
    }

    /// Returns the input of the function.
    pub(crate) fn input<'b>(&'b self, call: &'b RunningCall<'_>) -> Input<'b> {
        Input {
            arguments: self.arguments,
            contract: &self.function.contract,
            violations: None,
            states: &self.request.engine().states,
            context: call.context.as_ref(),
            encoding: &call.encoding,
            uri: self.uri,
        }
    }

    /// Collects the properties of the call that its layers see, and those that are needed to call the function
    /// afterwards.
    pub(crate) fn info(&self, call: &RunningCall<'_>) -> CallInfo {
        let Self { request, function, .. } = *self;
        let Params { input_responses, request_state, .. } = request.params;
        CallInfo {
            call: call.to_owned(),
            kind: function.kind.into(),
            entry: function.info(),
            common: function.common,
            function: CalledFunction::Handler,
            contract: Arc::clone(&function.contract),
            uses_context: function.uses_context,
            name: self.name.into(),
            uri: self.uri.into(),
            hints: self.hints,
            caller: request.caller(),
            is_continued: input_responses.is_some() || request_state.is_some(),
            states: Arc::clone(&request.engine().states),
            check_share: request.connection.source.as_ref().and_then(|source| source.check_share()).map(Arc::clone),
            shared: request.engine().layer_backend.clone(),
        }
    }

    /// Returns the requester that sends the function's requests to its client, or `None` if the function cannot send any.
    ///
    /// # Errors
    ///
    /// Returns a fault if the client's answers or its request state are invalid.
    pub(crate) fn requester(&self, uses_context: bool) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
        let request = self.request;
        let engine = request.engine();
        let stateless = request.has(Feature::RequestMeta);
        if let Some(session) = request.session().filter(|_| uses_context && !stateless) {
            return Ok(Some(Arc::new(LiveRequester::of_call(session, &request.connection.outbox))));
        }
        let Params { input_responses, request_state, meta, .. } = request.params;
        if !stateless || !(uses_context || input_responses.is_some() || request_state.is_some()) {
            return Ok(None);
        }
        let binding = Binding {
            principal: request.principal().map(Into::into),
            method: self.method,
            name: self.name.into(),
            arguments: self.arguments.into(),
        };
        engine.start_background();
        let keys = &engine.state_keys;
        let params =
            RoundParams::decode(input_responses.map(RawJson::text), request_state.map(RawJson::text), keys, &binding)?;
        let encoding = Arc::clone(request.encoding());
        let capabilities = meta.client_capabilities.map_or("{}", RawJson::text);
        Ok(Some(Arc::new(RoundsRequester::new(params, capabilities, Arc::clone(keys), binding, encoding))))
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

/// Prepares the call of a function. Creates its context only if the function or the engine uses it.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
pub(crate) fn prepare<'a>(
    request: &RequestContext<'a>,
    (name, common): (&'static str, &'static CommonEntry),
    kind: Option<EntryKind>,
    uses_context: bool,
    context: impl FnOnce() -> ContextParts,
) -> Result<RunningCall<'a>, Fault> {
    check_in_flight(request)?;
    request.span.record("entry", name);
    let engine = request.engine();
    // A blocking function waits for a thread with other calls of its sender, which the context identifies.
    let is_shared = common.blocking && request.connection.source.is_some();
    let uses_context = uses_context || engine.profile.log_targets.is_some() || is_shared;
    let context = uses_context.then(|| Arc::new(Context::new(context())));
    let timeout = common.timeout.or(engine.profile.limits.timeout);
    Ok(running_call(request, name, kind, timeout, context))
}

fn running_call<'a>(
    request: &RequestContext<'a>,
    name: &'static str,
    kind: Option<EntryKind>,
    timeout: Option<Duration>,
    context: Option<Arc<Context>>,
) -> RunningCall<'a> {
    let (id, encoding) = (request.id.clone(), Arc::clone(request.encoding()));
    RunningCall { name, kind, timeout, id, encoding, context, is_layered: false }
}

/// Checks that the connection may start another call.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
pub(crate) fn check_in_flight(request: &RequestContext<'_>) -> Result<(), Fault> {
    let limit = request.engine().profile.limits.in_flight;
    if request.connection.in_flight.count() >= limit {
        return Err(Fault::overloaded(format!("too many requests in flight: the limit is {limit}")));
    }
    Ok(())
}

/// Returns the properties of a function's context, which cannot send requests to its client.
pub(crate) fn context_parts(request: &RequestContext<'_>, name: &str) -> ContextParts {
    let is_identified = request.connection.source.as_ref().is_some_and(|source| source.identity().is_some());
    let meta = &request.params.meta;
    let log = match request.dialect.level {
        None if request.has(Feature::LogLevel) => LogThreshold::Session,
        level => LogThreshold::Request(level),
    };
    ContextParts {
        peer: Arc::clone(&request.connection.outbox) as _,
        caller: request.caller(),
        scopes: None,
        access: is_identified.then(|| Arc::clone(&request.engine().profile.access)),
        dialect: request.dialect(),
        id: request.id.to_owned(),
        name: name.into(),
        progress_token: meta.progress_token().map(Into::into),
        log,
        log_targets: request.engine().profile.log_targets.clone(),
        meta: meta.whole.map(|meta| meta.text().into()),
        capabilities: request.session_capabilities(),
        requester: None,
        task_status: None,
        handoff: None,
    }
}

/// Returns the environment of a server function.
pub(crate) fn server_fn_env(states: Arc<StateMap>, encoding: Arc<Encoding>, context: Option<Arc<Context>>) -> CallEnv {
    CallEnv { states, context, completion: None, encoding, contract: None, uri: "".into() }
}

/// Runs a server function, on a separate thread if it blocks.
pub(crate) async fn run_server_fn(
    function: &'static ServerFnEntry,
    blocking: bool,
    env: CallEnv,
) -> Result<ServerFnOutput, HandlerError> {
    if !blocking {
        return (function.call)(env).await;
    }
    let runtime = tokio::runtime::Handle::current();
    let share = env.blocking_share();
    let produced = run_blocking(share, move || runtime.block_on((function.call)(env))).await;
    produced.unwrap_or_else(|| Err(Fault::shutting_down().into()))
}

/// Answers a request with the result of a future that calls no function, and therefore usually needs no permit.
pub(crate) fn answer_with(
    request: &RequestContext<'_>,
    name: &'static str,
    timeout: Option<Duration>,
    permit: Option<Permit>,
    result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
    out: &mut Vec<u8>,
) {
    let finished = async move { Finished::from(result.await) };
    running_call(request, name, None, timeout, None).run_future(request, permit, Box::pin(finished), out);
}
