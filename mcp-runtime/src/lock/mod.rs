//! Comparing a server with the lock file of its package, in a test.

mod error;
pub(crate) mod intercept;
pub(crate) mod listing;
mod test;

pub(crate) use error::LockError;
pub use test::{locked_main, locked_server};
