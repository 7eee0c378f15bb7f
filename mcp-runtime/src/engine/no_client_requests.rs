//! Takes the place of `client_requests` without the feature `ask`, when no function can send requests to its client.

use std::sync::Arc;

use super::request::{context::RequestContext, params::invalid_request_state};
use crate::{
    error::Fault,
    handler::{ClientRequester, Function, entry::EntryKind},
    revision::Feature,
};

/// Returns no requester.
///
/// # Errors
///
/// Returns a fault if the request carries a `requestState`, which this server never issues.
pub(super) fn requester(
    request: &RequestContext<'_>,
    function: &Function,
    _subject: &str,
    _arguments: &str,
    _uses_context: bool,
) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
    let has_rounds = request.has(Feature::RequestMeta) && function.kind() != EntryKind::Method;
    if has_rounds && !request.id.is_of_notification() {
        request.params.input_responses()?;
        if request.params.request_state()?.is_some() {
            return Err(invalid_request_state("no function of this server asks its client"));
        }
    }
    Ok(None)
}
