//! Prepares calls: checks the limits, and creates the function's context and its connection to the client.

use std::{sync::Arc, time::Duration};

use super::{callee::Callee, run::PreparedCall};
use crate::{
    auth::Scopes,
    engine::{
        client_requests::{Binding, RoundParams, RoundsRequester},
        layers::{Call, CallInfo, CalledFunction},
        live_requester::LiveRequester,
        request::{context::RequestContext, params::Params, source::Permit},
    },
    error::Fault,
    handler::{
        CallEnv, ClientRequester, Context, ContextParts, Encoding, Finished, HandlerError, Input, LogThreshold, Peer,
        ServerFnOutput, StateMap, StatusMessages, TaskHandoff,
        entry::{CommonEntry, EntryKind, Handler, Hints, ServerFnEntry},
        run_blocking,
    },
    jsonrpc::RawJson,
    registry::Function,
    revision::Feature,
};

/// The target of a call: a tool, a prompt or a resource.
pub(crate) struct CallTarget<'a> {
    pub(crate) method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: &'a str,
    /// The URI of the resource. Empty for tools and prompts.
    pub(crate) uri: &'a str,
    pub(crate) hints: Hints,
}

/// The objects through which a call communicates with its client.
#[derive(Default)]
pub(crate) struct CallOptions {
    /// `None` if the function cannot send requests to its client.
    pub(crate) requester: Option<Arc<dyn ClientRequester>>,
    /// The receiver of notifications. `None` for the outbox of the connection.
    pub(crate) peer: Option<Arc<dyn Peer>>,
    pub(crate) task_status: Option<Arc<dyn StatusMessages>>,
    pub(crate) handoff: Option<Arc<dyn TaskHandoff>>,
    /// The scopes that the function requires.
    pub(crate) scopes: Option<Arc<Scopes>>,
}

/// Calls a function.
pub(crate) fn call(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let requester = requester(request, target, arguments, function.uses_context)?;
    call_with(request, function, target, arguments, CallOptions { requester, ..CallOptions::default() }, out)
}

/// Calls a function with options.
pub(crate) fn call_with(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    arguments: &str,
    mut options: CallOptions,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    options.scopes = function.scopes.clone();
    let uses_context = function.uses_context || options.handoff.is_some();
    let next = request.engine().layers.for_call(function, arguments);
    let mut call =
        prepare(request, (function.name, function.common), target.name, Some(function.kind), uses_context, options)?;
    if next.is_none() && matches!(function.common.handler, Handler::Sync(_)) {
        check_capacity(request)?;
    } else {
        call.permit = admit(request)?;
    }
    if let Some(next) = next {
        let info = call_info(request, function, target, call.callee, call.context.clone());
        call.run_layered(next.start(Call::new(info, arguments)), out);
        return Ok(());
    }
    let context = call.context.clone();
    let input = Input {
        arguments,
        contract: &function.contract,
        violations: None,
        states: &request.engine().states,
        context: context.as_ref(),
        encoding: call.encoding,
        uri: target.uri,
    };
    call.run(&function.common.handler, input, out);
    Ok(())
}

/// Collects the properties of a call that its layers see, and those that are needed to call the function afterwards.
pub(crate) fn call_info(
    request: &RequestContext<'_>,
    function: &Function,
    target: &CallTarget<'_>,
    callee: Callee,
    context: Option<Arc<Context>>,
) -> CallInfo {
    let Params { input_responses, request_state, .. } = request.params;
    CallInfo {
        kind: function.kind.into(),
        entry: function.info(),
        common: function.common,
        function: CalledFunction::Handler,
        contract: Arc::clone(&function.contract),
        uses_context: function.uses_context,
        name: target.name.into(),
        uri: target.uri.into(),
        hints: target.hints,
        caller: request.caller(),
        is_continued: input_responses.is_some() || request_state.is_some(),
        id: request.id.to_owned(),
        callee,
        states: Arc::clone(&request.engine().states),
        context,
        forwards_log: request.engine().forwards_log,
        encoding: Arc::clone(request.encoding()),
        check_share: request.connection.source.as_ref().and_then(|source| source.check_share()).map(Arc::clone),
        shared: request.engine().layer_backend.clone(),
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

/// Prepares the call of a function, without a permit.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
pub(crate) fn prepare<'a>(
    request: &RequestContext<'a>,
    (function, common): (&'static str, &'static CommonEntry),
    name: &str,
    kind: Option<EntryKind>,
    uses_context: bool,
    options: CallOptions,
) -> Result<PreparedCall<'a>, Fault> {
    check_in_flight(request)?;
    request.span.record("entry", function);
    let connection = request.connection;
    let engine = request.engine();
    let timeout = common.timeout.or(engine.limits.timeout);
    // A blocking function waits for a thread with other calls of its sender, which the context identifies.
    let is_shared = common.blocking && connection.source.is_some();
    let uses_context = uses_context || engine.forwards_log || is_shared;
    Ok(PreparedCall {
        in_flight: &connection.in_flight,
        outbox: &connection.outbox,
        clock: &connection.clock,
        encoding: request.encoding(),
        id: request.id.clone(),
        sink: request.sink,
        permit: None,
        context: uses_context.then(|| Arc::new(function_context(request, name, options))),
        forwards_log: engine.forwards_log,
        callee: Callee { name: function, kind, timeout },
    })
}

/// Checks that the connection may start another call.
///
/// # Errors
///
/// Returns [`Fault::Overloaded`] if the connection has too many calls in flight.
pub(crate) fn check_in_flight(request: &RequestContext<'_>) -> Result<(), Fault> {
    let limit = request.engine().limits.in_flight;
    if request.connection.in_flight.count() >= limit {
        return Err(Fault::overloaded(format!("too many requests in flight: the limit is {limit}")));
    }
    Ok(())
}

/// Returns the requester that sends a function's requests to its client, or `None` if the function cannot send any.
///
/// # Errors
///
/// Returns a fault if the client's answers or its request state are invalid.
pub(crate) fn requester(
    request: &RequestContext<'_>,
    target: &CallTarget<'_>,
    arguments: &str,
    uses_context: bool,
) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
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
        method: target.method,
        name: target.name.into(),
        arguments: arguments.into(),
    };
    engine.start_background();
    let keys = &engine.state_keys;
    let params =
        RoundParams::decode(input_responses.map(RawJson::text), request_state.map(RawJson::text), keys, &binding)?;
    let encoding = Arc::clone(request.encoding());
    let capabilities = meta.client_capabilities.map_or("{}", RawJson::text);
    Ok(Some(Arc::new(RoundsRequester::new(params, capabilities, Arc::clone(keys), binding, encoding))))
}

/// Creates the context of a function.
pub(crate) fn function_context(request: &RequestContext<'_>, name: &str, options: CallOptions) -> Context {
    let CallOptions { requester, peer, task_status, handoff, scopes } = options;
    let source = request.connection.source.as_ref();
    let is_identified = source.is_some_and(|source| source.identity().is_some());
    let meta = &request.params.meta;
    let log = match request.dialect.level {
        None if request.has(Feature::LogLevel) => LogThreshold::Session,
        level => LogThreshold::Request(level),
    };
    Context::new(ContextParts {
        peer: peer.unwrap_or_else(|| Arc::clone(&request.connection.outbox) as _),
        head: source.map(|source| Arc::clone(source) as _),
        principal: request.principal().map(Into::into),
        local_identity: request.local_identity().cloned(),
        scopes,
        access: is_identified.then(|| Arc::clone(&request.engine().access)),
        dialect: request.dialect(),
        id: request.id.to_owned(),
        name: name.into(),
        progress_token: meta.progress_token().map(Into::into),
        log,
        log_targets: request.engine().log_targets.clone(),
        meta: meta.whole.map(|meta| meta.text().into()),
        client: request.client(),
        capabilities: request.session_capabilities(),
        requester,
        task_status,
        handoff,
    })
}

/// Returns the environment of a server function.
pub(crate) fn server_fn_env(states: Arc<StateMap>, encoding: Arc<Encoding>, context: Option<Arc<Context>>) -> CallEnv {
    CallEnv {
        states,
        context,
        completion: None,
        encoding,
        structured: false,
        wraps: false,
        mime_type: None,
        uri: "".into(),
    }
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
    let connection = request.connection;
    let call = PreparedCall {
        in_flight: &connection.in_flight,
        outbox: &connection.outbox,
        clock: &connection.clock,
        encoding: request.encoding(),
        id: request.id.clone(),
        sink: request.sink,
        permit,
        context: None,
        forwards_log: false,
        callee: Callee { name, kind: None, timeout },
    };
    let finished = async move {
        match result.await {
            Ok(body) => Finished { body, outcome: Ok(()) },
            Err(fault) => Finished { body: Vec::new(), outcome: Err(fault.into()) },
        }
    };
    call.run_future(Box::pin(finished), out);
}
