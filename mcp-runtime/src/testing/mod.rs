//! A client for tests that talks to a server in memory, without a process or a socket; contexts and backends in tests.

mod backend_contract;
mod calls;
mod client;
#[cfg(feature = "http")]
mod http_transport;
mod question;
#[cfg(feature = "http")]
mod request;
#[cfg(feature = "http")]
mod request_source;
mod result;
mod subscription;
mod task;
mod test_backend;
mod wire;

pub use backend_contract::backend_contract;
pub use client::TestClient;
pub use question::ServerRequest;
pub use result::{CallResult, RpcError};
pub use subscription::{LogMessage, ProgressUpdate};
pub use task::TestTask;
pub use test_backend::{BackendHook, BackendMethod, BackendOperation, TestBackend};
