//! Configuring, building and serving a server.

mod authorization;
mod backend;
mod build;
mod built;
mod capabilities;
mod error;
mod functions;
mod introduction;
mod limits;
#[cfg(feature = "log")]
mod logs;
#[allow(clippy::module_inception)]
mod server;
mod tasks;

pub use built::BuiltServer;
pub use error::ServeError;
pub use server::Server;
