//! Requests: their parameters, their dialect and their sender.

pub(crate) mod context;
pub(crate) mod operation;
pub(crate) mod params;
pub(crate) mod source;
pub(crate) mod start;
