use std::{io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    engine::{Connection, Engine},
    handle::Handle,
    telemetry::Stats,
    transport::{self, Stdio},
};

/// A server that has been built and can serve connections. Clones refer to the same server.
///
/// ```
/// use mcp_runtime::{Revision, Server, tool};
///
/// /// Return the answer.
/// #[tool(read_only)]
/// fn answer() -> u8 {
///     42
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let server = Server::empty("oracle", "1.0.0").with::<answer>().build().unwrap();
/// for revision in Revision::ALL {
///     let mut client = server.test_client(revision);
///     assert_eq!(client.call("answer", ()).await.unwrap().text(), "42");
/// }
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct BuiltServer {
    pub(super) engine: Arc<Engine>,
    handle: Handle,
    #[cfg(feature = "http")]
    pub(super) http: super::http::HttpParts,
}

impl BuiltServer {
    pub(super) fn new(engine: Arc<Engine>, handle: Handle) -> Self {
        Self {
            engine,
            handle,
            #[cfg(feature = "http")]
            http: super::http::HttpParts::default(),
        }
    }

    /// Returns a handle that changes the server. From now on, the server declares to new clients that its lists can
    /// change.
    pub fn handle(&self) -> Handle {
        self.engine.announce_changes();
        self.handle.issue()
    }

    /// Returns access to the gauges and counters of the server.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Serves stdio until stdin ends or the process receives SIGTERM or Ctrl-C, then waits for the calls in flight.
    ///
    /// On Unix, everything that the process prints from then on goes to stderr. On Windows, the process must
    /// not print to stdout, which would corrupt the messages.
    ///
    /// # Errors
    ///
    /// Returns an error if stdin or stdout fails, if the client does not read the responses in time, or if the
    /// [backend](crate::Server::backend) belongs to a server with another name.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.serve_claimed(Stdio::claim()?).await
    }

    pub(crate) async fn serve_claimed(&self, stdio: Stdio) -> io::Result<()> {
        self.engine.check_name().await?;
        let (reader, writer) = stdio.into_streams()?;
        let stop = transport::shutdown_signal(self.engine.profile.limits.grace_period);
        let served = transport::serve(Connection::over_stdio(Arc::clone(&self.engine)), reader, writer, stop).await;
        self.engine.flush_changes().await;
        served
    }

    /// Serves one client over a pair of byte streams, with one message per line. Returns when `reader` has ended and
    /// the calls in flight have been answered.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    ///
    /// let server = Server::empty("empty", "1.0.0").build().unwrap();
    /// let (client, stream) = tokio::io::duplex(4096);
    /// let (reader, writer) = tokio::io::split(stream);
    /// let served = tokio::spawn(async move { server.serve(reader, writer).await });
    ///
    /// let (responses, mut requests) = tokio::io::split(client);
    /// requests.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    /// let response = BufReader::new(responses).lines().next_line().await.unwrap();
    /// assert!(response.unwrap().starts_with(r#"{"jsonrpc":"2.0","id":1"#));
    /// requests.shutdown().await.unwrap();
    /// served.await.unwrap().unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a stream fails, if the client does not read the responses in time, or if the
    /// [backend](crate::Server::backend) belongs to a server with another name. A client that disconnects is not an error.
    pub async fn serve<R, W>(&self, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        self.engine.check_name().await?;
        let served =
            transport::serve(Connection::new(Arc::clone(&self.engine)), reader, writer, std::future::pending()).await;
        self.engine.flush_changes().await;
        served
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}
