//! The command line of a server: what `main!()` and `#[server]` expand to.

#[cfg(feature = "http")]
mod address;
mod flags;
mod help;
mod options;
mod show;
mod start;

pub use show::Package;
pub use start::{IntoServer, MainError, MainFn, ServerFuture, default_main, start};
