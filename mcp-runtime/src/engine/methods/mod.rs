//! The methods of the protocol, one file per group.
//!
//! Each function answers one request: it writes the response, or starts a call whose response follows through the
//! connection's outbox. If it returns an error, it has written nothing, and the error becomes the response.

pub(crate) mod completion;
pub(crate) mod entries;
pub(crate) mod session;
