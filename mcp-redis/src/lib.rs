#![doc = include_str!("../docs/guide.md")]
#![warn(clippy::missing_errors_doc)]

mod backend;
mod client;
mod connection;
mod logs;
mod records;
mod subscriptions;

pub use backend::{Redis, RedisBuilder};
pub use connection::Error;

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
