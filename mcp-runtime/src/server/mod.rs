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
#[cfg(not(all(feature = "http", feature = "skills")))]
mod missing_features;
#[allow(clippy::module_inception)]
mod server;
mod tasks;

pub use built::BuiltServer;
pub use error::ServeError;
#[cfg(not(feature = "http"))]
pub use missing_features::HttpFeature;
#[cfg(not(feature = "skills"))]
pub use missing_features::SkillsFeature;
pub use server::Server;
