//! The command line of a server: what `main!()` and `#[server]` expand to.

mod flags;
mod help;
#[cfg(feature = "http")]
mod http;
mod options;
mod show;
mod start;

pub use show::Package;
pub use start::{IntoServer, MainError, MainFn, ServerFuture, default_main, start};
