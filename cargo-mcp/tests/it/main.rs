//! Each command end to end, with the real programs.

mod bundle;
mod common;
mod completions;
mod list;
mod new;
