//! Listening on an address.

mod acceptor;
mod listener;
mod socket;
mod timer;
#[cfg(unix)]
mod unix;

pub(crate) use listener::Listener;
