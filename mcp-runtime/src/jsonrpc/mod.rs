//! JSON-RPC 2.0: ids, requests, notifications, responses, error codes. Nothing here knows the Model Context Protocol.

mod canonical;
mod check;
mod id;
mod message;
pub(crate) mod raw;
mod scan;
pub(crate) mod write;

pub(crate) use canonical::{canonical, canonical_by};
pub(crate) use id::Id;
pub(crate) use message::{Answer, Incoming, Malformed, Message, Object, Transmission, parse};
