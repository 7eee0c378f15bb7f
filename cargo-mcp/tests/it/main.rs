//! Each command end to end, with the real programs.

mod check;
mod common;
mod list;
