//! The command line of a server: what `main!()` and `#[server]` expand to.

#[cfg(feature = "http")]
mod address;
mod flags;
mod help;
mod main_fn;
mod options;
mod package;
mod show;
mod start;
mod usage_error;

pub use main_fn::{IntoServer, MainError, MainFn, ServerFuture, default_main};
pub use package::Package;
pub use start::start;
