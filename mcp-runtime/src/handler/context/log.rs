//! `notifications/message`, and the encoding of `_meta`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{jsonrpc::write, model::Level};

/// The level that a log message of a call must reach to be sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogThreshold {
    /// The level that the client set for the session or, in a stateless revision, for the connection.
    Session,
    /// The level in the request. `None` disables log messages: the client did not ask for any.
    Request(Option<Level>),
}

/// Encodes a log message. An empty logger name and an empty `_meta` are omitted.
///
/// # Errors
///
/// Returns an error if `data` cannot be serialized.
pub(crate) fn notification(
    logger: &str,
    level: Level,
    data: &impl Serialize,
    meta: &Map<String, Value>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#);
    write::string(&mut out, level.as_str());
    if !logger.is_empty() {
        out.extend_from_slice(br#","logger":"#);
        write::string(&mut out, logger);
    }
    out.extend_from_slice(br#","data":"#);
    write::value(&mut out, data)?;
    write_meta(&mut out, meta);
    out.extend_from_slice(b"}}");
    Ok(out)
}

/// Writes `_meta` after another member, unless it is empty.
pub(super) fn write_meta(out: &mut Vec<u8>, meta: &Map<String, Value>) {
    if !meta.is_empty() {
        out.extend_from_slice(br#","_meta":"#);
        write::plain(out, meta);
    }
}
