//! Listening on an address, and serving the connections.

mod listener;
mod options;
mod serving;
mod socket;
mod timer;
#[cfg(unix)]
mod unix;

pub use listener::Listener;
pub use options::ListenerOptions;
pub use serving::{Serve, serve};
