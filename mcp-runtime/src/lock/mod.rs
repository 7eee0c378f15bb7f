//! Comparing a server with the lock file of its package, in a test.

pub(crate) mod intercept;
mod test;

pub(crate) use intercept::LockError;
pub use test::{locked_main, locked_server};
