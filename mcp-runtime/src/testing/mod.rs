//! A client that calls a server in memory, without a process or a socket, a comparison with a lock file, and a test of
//! backends.
//!
//! [`Server::test_client`](crate::Server::test_client) connects a [`TestClient`], [`locked_test!`](crate::locked_test) compares
//! the server with its lock file, and `backend_contract` checks an implementation of [`Backend`](crate::backend::Backend). The
//! guide explains them in [Testing](crate::guide::testing).
//!
//! The module requires the feature `testing`, which belongs in `[dev-dependencies]`.

#[cfg(feature = "cluster")]
mod backend_contract;
mod calls;
mod client;
#[cfg(feature = "http")]
mod http_transport;
pub(crate) mod lock;
#[cfg(feature = "http")]
mod request_source;
mod result;
#[cfg(feature = "tasks")]
mod task;
#[cfg(feature = "cluster")]
pub(crate) mod test_backend;

#[cfg(feature = "cluster")]
pub use backend_contract::backend_contract;
pub use client::TestClient;
pub use result::{
    CallResult, GetPromptResult, ListedEntry, LogMessage, ProgressUpdate, ReadResult, RpcError, ServerRequest,
};
#[cfg(feature = "tasks")]
pub use task::TestTask;
