use std::{io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(all(feature = "cluster", feature = "http"))]
use crate::cluster::Cluster;
use crate::{
    engine::{Connection, Engine},
    handle::Handle,
    transport::{self, Stdio},
};
#[cfg(feature = "http")]
use crate::{
    error::BuildError,
    transport::http::{
        Authorization, Endpoint, HttpOptions, HttpService, LegacySessions,
        session::{LocalSessions, Sessions},
    },
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
    engine: Arc<Engine>,
    handle: Handle,
    /// The processes that share the backend. `None` if the author has not set one.
    #[cfg(all(feature = "cluster", feature = "http"))]
    cluster: Option<Arc<Cluster>>,
    /// How HTTP requests are authenticated.
    #[cfg(feature = "http")]
    authorization: Option<Arc<Authorization>>,
    #[cfg(feature = "http")]
    legacy: LegacySessions,
}

/// The maximum number of functions that an error names.
#[cfg(feature = "http")]
const MAX_NAMES: usize = 5;

impl BuiltServer {
    pub(super) fn new(engine: Arc<Engine>, handle: Handle) -> Self {
        Self {
            #[cfg(feature = "http")]
            legacy: LegacySessions::default(),
            engine,
            handle,
            #[cfg(all(feature = "cluster", feature = "http"))]
            cluster: None,
            #[cfg(feature = "http")]
            authorization: None,
        }
    }

    /// Sets the processes that share the backend.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(super) fn in_cluster(self, cluster: Option<Arc<Cluster>>) -> Self {
        Self { cluster, ..self }
    }

    /// Sets how HTTP requests are authenticated.
    #[cfg(feature = "http")]
    pub(super) fn authorized(self, authorization: Option<Arc<Authorization>>) -> Self {
        Self { authorization, ..self }
    }

    /// Returns a handle that changes the server. From now on, the server declares to new clients that its lists can
    /// change.
    pub fn handle(&self) -> Handle {
        self.engine.announce_changes();
        self.handle.issue()
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
        let served = transport::serve(Connection::new(Arc::clone(&self.engine)), reader, writer, stop).await;
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

    /// Creates an endpoint, whose sessions the processes that share the backend share.
    #[cfg(feature = "http")]
    pub(crate) fn endpoint(&self, options: HttpOptions) -> Endpoint {
        let local = Arc::new(LocalSessions::new(&options));
        #[cfg(feature = "cluster")]
        let sessions = match &self.cluster {
            Some(cluster) => cluster.sessions(&self.engine, local, &options),
            None => Sessions::new(local, None),
        };
        #[cfg(not(feature = "cluster"))]
        let sessions = Sessions::new(local, None);
        Endpoint::new(Arc::clone(&self.engine), self.authorization.clone(), sessions, options)
    }

    /// Checks that functions with scopes are unreachable without authentication.
    #[cfg(feature = "http")]
    fn check_authorization(&self) -> Result<(), String> {
        let registry = self.engine.registry();
        if self.authorization.is_some() || (!registry.requires_scopes() && self.engine.profile.access.base.is_empty()) {
            return Ok(());
        }
        let functions = registry.functions().filter(|(function, _)| function.scopes.is_some());
        let names: Vec<_> = functions.map(|(function, _)| format!("`{}`", function.name)).take(MAX_NAMES + 1).collect();
        let what = match names.as_slice() {
            [] => "every request requires scopes".to_owned(),
            [name] => format!("{name} requires scopes"),
            names if names.len() > MAX_NAMES => format!("{} and others require scopes", names[..MAX_NAMES].join(", ")),
            names => format!("{} require scopes", names.join(", ")),
        };
        Err(format!(
            "{what}, but the server does not authenticate requests over HTTP\n\
             help: add an authenticator with `Server::authenticate`; if a middleware identifies the callers, add \
             `IdentityFromExtensions`"
        ))
    }

    /// Converts the server into an HTTP service, to [serve](crate::http::serve) on a listener or to mount into axum and
    /// other frameworks based on `http` and `tower`.
    ///
    /// ```
    /// # use mcp_runtime::{BuildError, HttpOptions, Server};
    /// # #[allow(dead_code)]
    /// fn app(server: Server) -> Result<axum::Router, BuildError> {
    ///     let mcp = server.build()?.into_http_service(HttpOptions::default())?;
    ///     Ok(axum::Router::new().nest_service("/mcp", mcp))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if functions require scopes, but the server has no authenticator, or if an option is invalid.
    #[cfg(feature = "http")]
    pub fn into_http_service(self, options: HttpOptions) -> Result<HttpService, BuildError> {
        let problems = self.check_authorization().err().into_iter().chain(options.problem().map(str::to_owned));
        let problems: Vec<_> = problems.collect();
        if !problems.is_empty() {
            return Err(BuildError::new(problems));
        }
        let is_https = self.authorization.as_ref().is_some_and(|authorization| authorization.is_https());
        if is_https && !options.knows_clients_of_proxies() {
            tracing::warn!(
                "the resource has an `https` URL, so a proxy forwards all requests, but the addresses of its clients are \
                 unknown: they share the limits for requests without a principal\n\
                 help: name the proxy with `--trusted-proxies 10.0.0.0/8` or \
                 `HttpOptions::trusted_proxies(\"10.0.0.0/8\")`, or set `HttpOptions::peer_addr`"
            );
        }
        Ok(HttpService::new(self.endpoint(options), self.legacy))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}
