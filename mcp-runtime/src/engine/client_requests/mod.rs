//! Requests from a function to its client: sent while the call waits, or returned round by round.

#[cfg(any(not(feature = "sealed-state"), test))]
#[cfg_attr(feature = "sealed-state", allow(dead_code, reason = "states are sealed"))]
mod kept;
mod live;
mod roots;
mod rounds;
#[cfg(feature = "sealed-state")]
mod seal;
mod state;

use std::sync::Arc;

#[cfg(not(feature = "sealed-state"))]
pub(crate) use kept::KeptStates as RoundStates;
#[cfg(feature = "tasks")]
pub(super) use live::into_result;
pub(crate) use live::{LiveRequester, RootsHook};
pub(super) use roots::RootsCache;
use rounds::{RoundParams, RoundsRequester};
#[cfg(feature = "sealed-state")]
pub(crate) use seal::StateKeys as RoundStates;
use state::Binding;

use crate::{
    engine::request::{context::RequestContext, params::Params},
    error::Fault,
    handler::{ClientRequester, Function, entry::EntryKind},
    jsonrpc::RawJson,
    revision::Feature,
};

/// Returns the requester that sends the function's requests to its client, or `None` if the function cannot send any.
///
/// # Errors
///
/// Returns a fault if the client's answers or its request state are invalid.
pub(in crate::engine) fn requester(
    request: &RequestContext<'_>,
    function: &Function,
    subject: &str,
    arguments: &str,
    uses_context: bool,
) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
    if request.id.is_of_notification() {
        return Ok(None);
    }
    let engine = request.engine();
    let stateless = request.has(Feature::RequestMeta);
    if let Some(session) = request.session().filter(|_| uses_context && !stateless) {
        return Ok(Some(Arc::new(LiveRequester::of_call(session, &request.connection.outbox))));
    }
    let Params { input_responses, request_state, meta, .. } = request.params;
    if !stateless || !(uses_context || input_responses.is_some() || request_state.is_some()) {
        return Ok(None);
    }
    let method = match function.kind() {
        EntryKind::Tool => "tools/call",
        EntryKind::Resource => "resources/read",
        EntryKind::Prompt => "prompts/get",
        // The protocol has no rounds of such methods.
        EntryKind::Method => return Ok(None),
    };
    let principal = request.principal().map(Into::into);
    let binding = Binding { principal, method, name: subject.into(), arguments: arguments.into() };
    engine.start_background();
    let states = request.connection.round_states();
    let params = RoundParams::decode(request.params, states, &binding)?;
    let encoding = Arc::clone(request.encoding());
    let capabilities = meta.client_capabilities.map_or("{}", RawJson::text);
    if let Some(earlier) = params.traceparent() {
        request.operation.continues(earlier);
    }
    let (states, traceparent) = (Arc::clone(states), request.operation.traceparent());
    Ok(Some(Arc::new(RoundsRequester::new(params, capabilities, states, binding, encoding, traceparent))))
}
