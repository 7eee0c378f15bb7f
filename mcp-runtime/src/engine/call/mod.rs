//! Calls of annotated functions: preparing, running, tracking and answering them.

pub(crate) mod in_flight;
#[cfg(all(test, shuttle))]
mod interleavings;
pub(crate) mod prepare;
pub(crate) mod response;
pub(crate) mod running;
