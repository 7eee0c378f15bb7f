//! The `tracing` span of a request.

use tracing::{Span, field::Empty};

use super::context::ConnectionContext;
use crate::{excerpt::excerpt, jsonrpc::Id, random::log_id};

/// Creates the span in which a request is answered: everything that runs for it, such as its function and the layers
/// around that, whether in place, in a tokio task or on a blocking thread.
///
/// `entry` is recorded once the function is known. If no subscriber wants the span, this costs an atomic load: nothing
/// is formatted.
pub(crate) fn request_span(connection: &ConnectionContext, method: &str, id: &Id<'_>) -> Span {
    tracing::info_span!(
        target: "mcp_runtime::request",
        "mcp.request",
        method,
        id = id.as_json(),
        // A connection without a source has one session, whose id says nothing.
        session = connection.source.as_ref().and_then(|_| connection.session.get()?.id()).map(log_id),
        principal = connection.principal().map(excerpt).as_deref(),
        entry = Empty,
    )
}
