//! Several servers in this process that share a backend, as the processes of one service do.

mod changes;
mod outages;
mod rate_limits;
mod sqlite;
mod state_keys;

use std::sync::Arc;

use mcp_runtime::{BuiltServer, Server};
use mcp_tests::backend::UnreliableBackend;

/// A server and its connection to the backend.
struct Replica {
    server: BuiltServer,
    backend: Arc<UnreliableBackend>,
}

/// Builds servers that share a backend. `configure` adds everything but the backend.
fn replicas<const N: usize>(configure: impl Fn() -> Server) -> [Replica; N] {
    let shared = UnreliableBackend::default();
    std::array::from_fn(|_| {
        let backend = Arc::new(shared.other_process());
        Replica { server: configure().backend(Arc::clone(&backend)).build().unwrap(), backend }
    })
}
