//! Moving messages over stdio, byte streams and HTTP. Nothing in this module knows the methods of the protocol.

#[cfg(feature = "http")]
pub(crate) mod http;
mod lines;
mod stdio;

pub(crate) use lines::serve;
pub(crate) use stdio::{Stdio, shutdown_signal};
