//! The HTTP transport of 2024-11-05: an event stream carries all messages of the server, and the client posts its
//! messages to a second path.
//!
//! A session lives as long as its stream, in the process that holds it. Other processes do not know it, even if they share
//! the backend: load balancers must send its messages to that process.
//!
//! See [HTTP with SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).

mod service;

pub(super) use self::service::LegacyService;
pub(crate) use self::service::LegacySessions;
