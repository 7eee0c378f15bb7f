//! Subscriptions to changes to the lists, to resources and to tasks.

pub(crate) mod change_set;
pub(crate) mod filter;
pub(crate) mod listener;
pub(crate) mod shared_changes;
pub(crate) mod subscriber;
pub(crate) mod subscription;
