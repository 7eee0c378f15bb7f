//! JSON-RPC 2.0: ids, requests, notifications and responses. Independent of the Model Context Protocol.

mod canonical;
mod check;
mod id;
mod message;
pub(crate) mod raw;
mod scan;
mod unescape;
pub(crate) mod write;

pub(crate) use canonical::{canonical, canonical_by};
pub(crate) use id::{Id, MAX_ID_BYTES};
pub(crate) use message::{Incoming, Malformed, Message, Object, ResponseBody, Transmission, parse, syntax_error};
pub(crate) use raw::RawJson;
