//! The HTTP transport of 2024-11-05: an event stream carries all messages of the server, and the client posts its
//! messages to a second path.
//!
//! A session lives as long as its stream, in the process that holds it. If other processes share the backend, any of them
//! receives messages and [forwards](forwarder::Forwarder) them to that process.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

mod awaited;
mod clients;
mod forwarder;
mod inbox;
mod message;
mod outgoing;
mod seen;
mod service;
mod sessions;

pub(super) use self::service::LegacyService;
pub(crate) use self::sessions::LegacySessions;
