//! JSON-RPC 2.0: ids, requests, notifications and responses. Independent of the Model Context Protocol.

mod check;
mod id;
mod message;
pub(crate) mod write;

pub(crate) use id::{Id, MAX_ID_BYTES};
pub(crate) use mcp_schema::json::{self as raw, canonical};
pub(crate) use message::{Incoming, Malformed, Message, Object, ResponseBody, Transmission, parse, syntax_error};
pub(crate) use raw::RawJson;
