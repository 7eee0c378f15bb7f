//! Listening on an address, and serving the connections.

#[cfg(feature = "tls")]
mod http2;
mod listener;
mod options;
mod serving;
mod socket;
mod stream;
mod timer;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod unix;

pub use listener::Listener;
pub use options::ListenerOptions;
pub use serving::{Serve, serve};

/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
