#![doc = include_str!("../docs/guide.md")]
#![warn(clippy::missing_errors_doc)]

mod address;
mod backend;
mod channels;
mod client;
mod error;
mod keys;
mod link;
mod logs;
mod records;
mod scripts;
mod subscriptions;
mod topics;

pub use backend::{Redis, RedisBuilder};
pub use error::Error;

mcp_runtime::backend_connector!(
    [
        "redis",
        "rediss",
        "valkey",
        "valkeys",
        "redis+cluster",
        "rediss+cluster",
        "valkey+cluster",
        "valkeys+cluster",
        "redis+sentinel",
        "rediss+sentinel",
        "valkey+sentinel",
        "valkeys+sentinel",
    ],
    backend::connect_server
);
