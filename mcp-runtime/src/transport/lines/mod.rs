//! Messages as lines over a pair of byte streams.
//!
//! See [stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio).

mod buffer;
mod transport;

pub(crate) use transport::serve;
