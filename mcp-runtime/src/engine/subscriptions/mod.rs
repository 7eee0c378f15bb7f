//! Subscriptions to changes of the lists, of resources and of tasks.

pub(crate) mod filter;
pub(crate) mod listener;
pub(crate) mod subscriber;
pub(crate) mod subscription;
