//! Configuring, building and serving a server.

mod built;
mod capabilities;
mod error;
#[allow(clippy::module_inception)]
mod server;

pub use built::BuiltServer;
pub use error::ServeError;
pub use server::Server;
