//! A client for tests that talks to a server in memory, without a process or a socket.

mod client;
mod notification;
mod question;
mod result;
mod task;
mod wire;

pub use client::TestClient;
pub use notification::{LogMessage, ProgressUpdate};
pub use question::ServerRequest;
pub use result::{CallResult, RpcError};
pub use task::TestTask;
