//! A client that calls a server in memory, without a process or a socket, and a test of backends.
//!
//! [`Server::test_client`](crate::Server::test_client) connects a [`TestClient`], and `backend_contract` checks an
//! implementation of [`Backend`](crate::backend::Backend). The guide explains them in [Testing](crate::guide::testing).

#[cfg(feature = "cluster")]
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
#[cfg(feature = "cluster")]
pub(crate) mod test_backend;
mod wire;

#[cfg(feature = "cluster")]
pub use backend_contract::backend_contract;
pub use client::TestClient;
pub use question::ServerRequest;
pub use result::{CallResult, RpcError};
pub use subscription::{LogMessage, ProgressUpdate};
pub use task::TestTask;
