//! The methods of the protocol, one file per group.
//!
//! Each function answers one request. It returns whether the response was written: `false` means that it follows later,
//! through the connection's outbox.

pub(crate) mod completion;
pub(crate) mod lifecycle;
pub(crate) mod lists;
pub(crate) mod logging;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod skills;
pub(crate) mod subscriptions;
pub(crate) mod tasks;
pub(crate) mod tools;
