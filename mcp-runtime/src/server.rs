//! The server: what an author configures.

/// A server.
#[derive(Debug)]
pub struct Server {}
