//! The limit that both programs know.

/// The maximum number of calls in flight over HTTP.
pub const MAX_IN_FLIGHT: usize = 200;
