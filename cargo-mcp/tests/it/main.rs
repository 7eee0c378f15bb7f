//! Each command end to end, with the real programs.

mod common;
#[cfg(unix)]
mod dev;
mod list;
