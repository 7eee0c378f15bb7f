//! Subscriptions to changes to the lists, to resources and to tasks.

pub(crate) mod filter;
pub(crate) mod subscriber;
