//! One HTTP endpoint for clients of every revision.
//!
//! A POST carries a message. Its response is JSON, or a stream of server-sent events if anything precedes the result.
//! Clients of 2025-03-26 to 2025-11-25 have sessions: GET opens a stream of a session and DELETE ends it. Clients of
//! 2026-07-28 are stateless.
//!
//! See [Streamable HTTP](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).

mod authorization;
mod endpoint;
mod guard;
mod headers;
mod legacy;
mod limits;
mod options;
pub(crate) mod peers;
mod post;
mod proxies;
mod request;
mod request_body;
mod response;
mod routing;
mod serve;
mod service;
pub(crate) mod session;
pub(crate) mod sse;

pub(crate) use authorization::Authorization;
pub use authorization::AuthorizationService;
pub(crate) use endpoint::Endpoint;
pub(crate) use legacy::LegacySessions;
pub use options::{HttpAddress, HttpOptions, InvalidHttpAddress, ListenerOptions};
pub use response::HttpBody;
pub use serve::{Listener, Serve, serve};
pub use service::HttpService;
