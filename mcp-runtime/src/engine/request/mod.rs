//! Requests: their parameters, their dialect and their sender.

pub(crate) mod access;
pub(crate) mod caller;
pub(crate) mod context;
pub(crate) mod dialect;
pub(crate) mod params;
pub(crate) mod sender_access;
pub(crate) mod source;
pub(crate) mod span;
