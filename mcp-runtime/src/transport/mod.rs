//! Bytes in, bytes out: nothing here knows a method.

mod lines;
mod stdio;

pub(crate) use lines::serve;
pub(crate) use stdio::Stdio;
