//! Calls that are tasks: made, run on their own, asked for, answered, cancelled.
//!
//! What is known of a task stands in a [`TaskStore`]; the function runs here. Both sides change the store and hear of each
//! other's changes by it, so that it does not matter which process a client talks to.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

pub(crate) mod calling;
mod claims;
mod encode;
pub(crate) mod extension;
mod handoff;
pub(crate) mod inquiry;
pub(crate) mod owner;
mod record;
pub(crate) mod result;
mod runner;
mod runners;
pub(crate) mod service;
mod side;
pub(crate) mod terms;
pub(crate) mod watch;
