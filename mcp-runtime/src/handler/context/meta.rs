use serde_json::{Map, Value};

use crate::jsonrpc::write;

/// Writes `_meta` after another member, unless it is empty.
pub(super) fn write_meta(out: &mut Vec<u8>, meta: &Map<String, Value>) {
    if !meta.is_empty() {
        out.extend_from_slice(br#","_meta":"#);
        write::plain(out, meta);
    }
}
