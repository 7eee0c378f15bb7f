use std::sync::Arc;

use super::Server;
use crate::backend::Backend;

/// Sharing state with other processes.
impl Server {
    /// Sets the backend in which all processes of the service keep the state that outlives a request. By default, this
    /// state is kept in the memory of the process, and clients must send all their requests to the same process.
    ///
    /// Processes share their state if they use the same backend. An `Arc` of a backend is a backend, so several servers
    /// of one process can share it, too.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_runtime::{MemoryBackend, Server};
    ///
    /// let backend = Arc::new(MemoryBackend::default());
    /// let first = Server::empty("notes", "1.0.0").backend(Arc::clone(&backend));
    /// let second = Server::empty("notes", "1.0.0").backend(backend);
    /// ```
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.profile.backend = Some(Arc::new(backend));
        self
    }
}
