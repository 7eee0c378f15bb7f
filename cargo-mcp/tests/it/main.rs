//! End-to-end tests of every command, with real servers.

mod broken;
mod building;
mod bundle;
mod call;
mod check;
mod common;
mod complete;
mod completions;
mod dev;
mod elicit;
mod install;
mod list;
mod new;
mod prompt;
mod read;
mod readme;
mod servers;
mod terminal;
