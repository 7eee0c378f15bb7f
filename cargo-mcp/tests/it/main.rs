//! Each command end to end, with the real programs.

mod common;
mod install;
mod list;
