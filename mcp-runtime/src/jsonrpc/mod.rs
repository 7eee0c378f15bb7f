//! JSON-RPC 2.0: ids, requests, notifications and responses. Independent of the Model Context Protocol.

mod check;
mod message;
pub(crate) mod write;

pub(crate) use mcp_schema::json as raw;
#[cfg(any(feature = "ask", feature = "cache"))]
pub(crate) use mcp_schema::json::canonical;
pub(crate) use message::{
    Id, Incoming, MAX_ID_BYTES, Malformed, Message, Object, ResponseBody, Transmission, parse, syntax_error,
};
pub(crate) use raw::RawJson;

/// Returns a member if it is an object.
pub(crate) fn object_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    raw::member(object, name).filter(|value| raw::kind(value) == raw::Kind::Object)
}
