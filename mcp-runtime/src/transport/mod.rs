//! Bytes in, bytes out: nothing here knows a method.

#[cfg(feature = "http")]
pub(crate) mod http;
mod lines;
mod signal;
mod stdio;

pub(crate) use lines::serve;
pub(crate) use signal::stop;
pub(crate) use stdio::Stdio;
