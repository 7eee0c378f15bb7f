//! Each command end to end, with the real programs.

mod common;
mod elicit;
mod list;
mod terminal;
