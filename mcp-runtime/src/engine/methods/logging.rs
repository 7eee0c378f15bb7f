//! `logging/setLevel`.

use crate::{
    cluster::{SessionChange, SessionMessage},
    engine::{
        call::response,
        request::{context::RequestContext, params},
    },
    error::Fault,
};

/// Sets the log level of the session.
///
/// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
pub(crate) fn set_level(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let level = params::level(request.params.member("level"), "level")?;
    request.connection.flow.set_level(level);
    request.connection.tell_replicas(|| SessionMessage::Change(SessionChange::Level(level)));
    response::write_result(out, request.id, &response::empty_result(request.encoding()));
    Ok(())
}
