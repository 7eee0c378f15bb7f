use std::{sync::Arc, time::Duration};

use super::Server;
use crate::{backend::Backend, engine::MAX_PERIOD};

/// The minimum lease. With a shorter lease, a busy machine would lose calls.
const MIN_LEASE: Duration = Duration::from_secs(1);

/// Sharing state with other processes.
impl Server {
    /// Sets the backend in which all processes of the service keep the state that outlives a request. By default, this
    /// state is kept in the memory of the process, and clients must send all their requests to the same process.
    ///
    /// The option `--backend` and the environment variable `MCP_BACKEND` take precedence. They contain the URL of a
    /// backend that a crate of the program provides, such as `redis://127.0.0.1:6379` with `mcp-runtime-redis`.
    ///
    /// Functions that take `&dyn Backend` receive it, and can
    /// [share state of their own](crate::guide::replicas#state-of-your-own-functions) through it.
    ///
    /// Processes share their state if they use the same backend. An `Arc` of a backend is a backend, so several servers
    /// of one process can share it, too.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    ///
    /// use mcp_runtime::{Server, backend::MemoryBackend};
    ///
    /// let backend = Arc::new(MemoryBackend::default());
    /// let first = Server::empty("notes", "1.0.0").backend(Arc::clone(&backend));
    /// let second = Server::empty("notes", "1.0.0").backend(backend);
    /// ```
    pub fn backend(self, backend: impl Backend) -> Self {
        self.shared_backend(Arc::new(backend))
    }

    /// Lets this server use a backend while processes of a server with another name use it, as during a rolling update
    /// to a release with a new name. Otherwise, such a backend is an error at startup, since clients would find
    /// sessions whose tools differ from the tools of the process that they reach.
    ///
    /// A backend belongs to a name as long as processes of that name run, and for a [lease](Self::lease) longer. A
    /// session belongs to the name for as long as it exists: to servers with other names, it is unknown. Releases with
    /// the same name and different versions may always share a backend.
    ///
    /// Tasks, the state of questions and, with `--backend`, the keys of Redis belong to the first name for which this method
    /// is called. Without it, they belong to the current name, and what was stored before is unknown.
    ///
    /// ```
    /// # use mcp_runtime::{Server, backend::MemoryBackend};
    /// let server = Server::empty("tracker", "2.0.0").renamed_from("notes").backend(MemoryBackend::default());
    /// ```
    pub fn renamed_from(mut self, name: impl Into<String>) -> Self {
        self.profile.former_names.push(name.into());
        self
    }

    /// Returns the name that belongs to everything that the server has ever stored.
    pub(crate) fn first_name(&self) -> &str {
        self.profile.first_name()
    }

    pub(crate) fn shared_backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.cluster.backend = Some(backend);
        self
    }

    /// Sets the time after which the other processes that share the [backend](Self::backend) consider this process
    /// gone, if it gives no sign of life. Clients that wait for one of its calls then receive an error. The default is
    /// 10 seconds, and the minimum is one second.
    ///
    /// The process gives a sign of life three times in this period. A process that cannot reach the backend for so long
    /// fails its calls, since the other processes consider them lost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.lease(Duration::from_secs(5))
    /// # }
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.cluster.lease = lease.clamp(MIN_LEASE, MAX_PERIOD);
        self
    }
}
