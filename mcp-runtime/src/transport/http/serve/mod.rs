//! Listening on an address.

mod listener;
mod socket;
mod timer;

pub(crate) use listener::Listener;
