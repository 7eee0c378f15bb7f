//! Writes JSON-RPC responses.

use crate::{
    error::Fault,
    excerpt::excerpt,
    handler::Encoding,
    jsonrpc::{Id, write},
    revision::{Dialect, Feature, encode::Object},
};

const BEFORE_ID: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const BEFORE_RESULT: &[u8] = br#","result":"#;

/// Writes a response up to its result. The caller appends the result and a `}`.
pub(crate) fn begin_result(out: &mut Vec<u8>, id: &Id<'_>) {
    out.extend_from_slice(BEFORE_ID);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(BEFORE_RESULT);
}

/// Writes a response with an encoded result.
pub(crate) fn write_result(out: &mut Vec<u8>, id: &Id<'_>, result: &[u8]) {
    out.reserve(result.len() + 64);
    begin_result(out, id);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// Writes an error response. The id is `None` if the request had no readable id.
///
/// See [JSON-RPC 2.0, 5.1](https://www.jsonrpc.org/specification#error_object).
pub(crate) fn write_error(out: &mut Vec<u8>, dialect: &Dialect, id: Option<&Id<'_>>, fault: &Fault) {
    let mut response = Object::begin(out);
    response.raw("jsonrpc", br#""2.0""#);
    match id {
        Some(id) => response.raw("id", id.as_json().as_bytes()),
        None if dialect.has(Feature::AbsentErrorId) => {}
        None => response.raw("id", b"null"),
    }
    write_error_object(response.key("error"), dialect, fault);
    response.end();
}

/// Writes the error of an error response.
pub(crate) fn write_error_object(out: &mut Vec<u8>, dialect: &Dialect, fault: &Fault) {
    let mut error = Object::begin(out);
    write::plain(error.key("code"), &dialect.code(fault));
    error.string("message", &fault.to_string());
    if let Some(data) = dialect.data(fault) {
        write::plain(error.key("data"), &data);
    }
    error.end();
}

/// Returns the result of a method that returns no data.
pub(crate) fn empty_result(encoding: &Encoding) -> Vec<u8> {
    let mut out = vec![b'{'];
    encoding.end_result(&mut out, None);
    out
}

/// Returns the error for a request whose id is still in use.
pub(crate) fn duplicate_id(id: &Id<'_>) -> Fault {
    Fault::InvalidRequest(format!("a request with id {} is still in flight", excerpt(id.as_json())))
}
