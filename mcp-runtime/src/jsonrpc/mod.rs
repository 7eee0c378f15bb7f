//! JSON-RPC 2.0: ids, requests, notifications and responses. Independent of the Model Context Protocol.

mod check;
mod message;
pub(crate) mod write;

pub(crate) use mcp_schema::json::{self as raw, canonical};
pub(crate) use message::{
    Id, Incoming, MAX_ID_BYTES, Malformed, Message, Object, ResponseBody, Transmission, parse, syntax_error,
};
pub(crate) use raw::RawJson;
