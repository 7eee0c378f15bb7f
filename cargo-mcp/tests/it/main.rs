//! Each command end to end, with the real programs.

mod common;
mod dev;
mod list;
