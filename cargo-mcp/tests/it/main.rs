//! Each command end to end, with the real programs.

mod bundle;
mod common;
mod completions;
mod list;
mod new;
mod broken;
mod call;
mod common;
mod complete;
mod elicit;
mod list;
mod prompt;
mod read;
mod servers;
mod terminal;
