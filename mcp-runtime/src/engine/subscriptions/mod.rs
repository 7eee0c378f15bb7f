//! Subscriptions to changes to the lists, to resources and to tasks.

pub(crate) mod filter;
#[cfg(feature = "cluster")]
mod replicated;
pub(crate) mod subscriber;
