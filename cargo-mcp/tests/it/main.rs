//! End-to-end tests of every command, with real servers. `tests/projects` tests what builds whole packages.

mod apps;
mod broken;
mod building;
mod bundle;
mod call;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod complete;
mod completions;
#[cfg(unix)]
mod dev;
mod elicit;
mod examples;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod hostile_login;
mod install;
mod list;
#[cfg(unix)]
mod login;
mod new;
mod prompt;
mod protected;
mod read;
mod refusal;
mod servers;
mod terminal;
