#![doc = include_str!("../docs/guide.md")]
#![warn(clippy::missing_errors_doc)]

mod address;
mod backend;
mod channels;
mod client;
mod connection;
mod error;
mod keys;
mod logs;
mod records;
mod scripts;
mod subscriptions;
mod topics;

pub use backend::{Redis, RedisBuilder};
pub use error::Error;
