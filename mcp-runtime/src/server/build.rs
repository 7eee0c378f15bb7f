//! Building a server, and serving it.

use std::{
    any::{TypeId, type_name},
    fmt, io,
    sync::Arc,
};

use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
#[cfg(feature = "http")]
use super::http::HttpParts;
#[cfg(feature = "backend")]
use crate::backend::{Backend, MemoryBackend};
#[cfg(feature = "cluster")]
use crate::{
    backend::MeasuredBackend,
    cluster::Cluster,
    engine::{Replicas, layers::SharedBackend},
};
use crate::{
    engine::{Connection, Engine, Profile},
    error::BuildError,
    handle::Handle,
    handler::entry::EntryKind,
    registry::{Registry, Selection, ServerCapabilities, Skills},
    telemetry::Stats,
    transport::{self, Stdio},
};

/// Building and serving.
impl Server {
    /// Checks that the server can be built, for use in a test.
    ///
    /// ```
    /// use mcp_runtime::{Server, tool};
    ///
    /// struct Db;
    ///
    /// /// Count the rows.
    /// #[tool]
    /// fn rows(db: &Db) -> u64 {
    ///     0
    /// }
    ///
    /// let error = Server::empty("db", "1.0.0").with::<rows>().check().unwrap_err();
    /// assert!(error.to_string().contains("Db"));
    /// assert!(Server::empty("db", "1.0.0").with::<rows>().with_state(Db).check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns every problem with its source line: duplicate names, missing state, invalid schemas.
    pub fn check(self) -> Result<(), BuildError> {
        self.build_with(true).map(drop)
    }

    /// Builds the server and serves stdio. See [`BuiltServer::serve_stdio`].
    ///
    /// ```
    /// # use mcp_runtime::{ServeError, Server};
    /// # #[allow(dead_code)]
    /// async fn run() -> Result<(), ServeError> {
    ///     Server::new("notes", "1.0.0").serve_stdio().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be built, or if stdin or stdout fails.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        Ok(self.build()?.serve_stdio().await?)
    }

    /// Builds the server and serves one client over a pair of byte streams. See [`BuiltServer::serve`].
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// # /// Add two numbers.
    /// # #[tool]
    /// # fn add(a: f64, b: f64) -> f64 { a + b }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (client, server) = tokio::io::duplex(4096);
    /// let (reader, writer) = tokio::io::split(server);
    /// # drop(client);
    /// Server::empty("adder", "1.0.0").with::<add>().serve(reader, writer).await.unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be built, or if a stream fails.
    pub async fn serve<R, W>(self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        Ok(self.build()?.serve(reader, writer).await?)
    }

    /// Checks and builds the server, once for any number of connections.
    ///
    /// In release builds, the schemas of annotated tools are generated when they are first listed or called, so that a
    /// server with many tools starts as fast as a server with one. [`check`](Self::check) generates them in all builds.
    ///
    /// ```
    /// # use mcp_runtime::{Revision, Server, tool};
    /// # /// Add two numbers.
    /// # #[tool]
    /// # fn add(a: f64, b: f64) -> f64 { a + b }
    /// let server = Server::empty("adder", "1.0.0").with::<add>().build()?;
    /// // Two clients of the same server.
    /// let clients = [server.test_client(Revision::V2025_11_25), server.test_client(Revision::V2026_07_28)];
    /// # Ok::<_, mcp_runtime::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns every problem with its source line: duplicate names, missing state, invalid schemas. Release builds leave out
    /// the schemas of annotated tools, which [`check`](Self::check) includes.
    pub fn build(self) -> Result<BuiltServer, BuildError> {
        self.build_with(cfg!(debug_assertions))
    }

    /// Builds the server. `checks_schemas` decides whether the schemas of annotated tools are generated now.
    pub(crate) fn build_with(mut self, checks_schemas: bool) -> Result<BuiltServer, BuildError> {
        #[cfg(feature = "testing")]
        crate::testing::lock::reject_foreign_main();
        self.merge_mounts();
        #[cfg(feature = "backend")]
        let memory = || -> Arc<dyn Backend> { Arc::new(MemoryBackend::default()) };
        #[cfg(feature = "cluster")]
        if let Some(backend) = &mut self.cluster.backend {
            if let Some(telemetry) = &self.profile.telemetry {
                *backend = Arc::new(MeasuredBackend::new(Arc::clone(backend), telemetry.clone()));
            }
            let (backend, server) = (Arc::clone(backend), self.profile.first_name().into());
            self.add_builtin(Arc::new(SharedBackend { backend, server }));
        }
        #[cfg(feature = "cluster")]
        let backend = self.cluster.backend.clone().unwrap_or_else(memory);
        #[cfg(all(feature = "backend", not(feature = "cluster")))]
        let backend = memory();
        #[cfg(not(feature = "backend"))]
        let backend = crate::backend::ServerBackend;
        self.add_builtin(Arc::new(self.handle.clone()));
        #[cfg(feature = "backend")]
        {
            self.add_builtin(Arc::clone(&backend));
            self.add_builtin(Arc::new(Arc::clone(&backend)));
        }
        #[cfg(feature = "skills")]
        let skills = Skills::read(&self.skills).unwrap_or_else(|problems| {
            self.problems.extend(problems);
            Skills::default()
        });
        #[cfg(not(feature = "skills"))]
        let skills = Skills::default();
        self.check_scopes();
        #[cfg(not(feature = "sealed-state"))]
        if !self.profile.state_keys.is_empty() {
            tracing::warn!(
                "state keys have no effect, since states stay in this process: enable the feature `sealed-state` of \
                 `mcp-runtime` for calls that continue in another process"
            );
        }
        #[cfg(feature = "http")]
        let authorization = self.authorization();
        let Profile { names, scopes, .. } = &self.profile;
        let selection = Selection { checks_schemas, entries: self.entries, names, scopes, states: &self.states };
        let registry = Registry::new(skills, self.profile.log_targets.is_some(), self.profile.schemas);
        let changed = registry.with(selection).unwrap_or_else(|error| {
            self.problems.extend_from_slice(error.problems());
            None
        });
        if !self.problems.is_empty() {
            return Err(BuildError::new(self.problems));
        }
        let registry = changed.unwrap_or(registry);
        let registry = registry.set_enabled_entries(&self.disabled, false).unwrap_or(registry);
        let mounted_handles = self.mounted_handles.iter().map(|(_, handle)| handle);
        let is_issued = mounted_handles.clone().chain([&self.handle]).any(Handle::is_issued);
        let changes = is_issued || registry.takes(TypeId::of::<Handle>());
        // Those of inner servers come first.
        for (group, handle) in &self.mounted_handles {
            self.states.insert_for(group, Arc::new(handle.clone()));
        }
        #[cfg(feature = "cluster")]
        let cluster = Cluster::of_server(self.cluster, &self.profile);
        #[cfg(feature = "cluster")]
        let replicas = cluster.clone().map(|cluster| cluster as Arc<dyn Replicas>);
        #[cfg(not(feature = "cluster"))]
        let replicas = None;
        let engine = Arc::new(Engine::new(registry, self.states, self.profile, backend, replicas, changes));
        #[cfg(feature = "cluster")]
        if let Some(cluster) = &cluster {
            cluster.connect(&engine);
        }
        mounted_handles.chain([&self.handle]).for_each(|handle| handle.connect(&engine));
        let subscribed = Arc::downgrade(&engine);
        engine.subscriptions.on_subscribe(move |uri, sees| subscribed.upgrade()?.registry().subscribed(uri, sees));
        if let Some(telemetry) = &engine.profile.telemetry {
            telemetry.call(|telemetry| telemetry.connect(engine.stats()));
        }
        engine.start_background();
        log_built(&engine);
        Ok(BuiltServer {
            engine,
            handle: self.handle,
            #[cfg(feature = "http")]
            http: HttpParts {
                #[cfg(feature = "cluster")]
                cluster,
                authorization,
                legacy: Default::default(),
            },
        })
    }

    /// Adds a value that functions of every server can take.
    fn add_builtin<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) {
        if !self.states.insert_builtin(value) {
            let name = type_name::<T>();
            self.problems.push(format!(
                "state of type `{name}` cannot be added: it is built in\nhelp: remove it, or wrap a different value in a newtype"
            ));
        }
    }
}

/// Logs the built server, and warns about probable mistakes.
fn log_built(engine: &Engine) {
    let registry = engine.registry();
    tracing::info!(
        server = engine.profile.identity.name,
        tools = registry.tools.enabled().len(),
        resources = registry.resources.enabled().len(),
        templates = registry.templates.enabled().len(),
        prompts = registry.prompts.enabled().len(),
        skills = registry.skills.all().len(),
        "server built"
    );
    if registry.capabilities == ServerCapabilities::default() {
        tracing::warn!(
            "the server has no functions: no linked crate has an annotated function, or all of them were filtered out"
        );
    }
    if registry.skills.is_served() && registry.skills.all().is_empty() {
        tracing::warn!("the skill directories contain no `SKILL.md`");
    }
    let tools = registry.functions().filter(|(function, enabled)| *enabled && function.kind() == EntryKind::Tool);
    for (tool, _) in tools.filter(|(tool, _)| tool.common().description.is_empty()) {
        let common = tool.common();
        let source = format_args!("{}:{}", common.source.file, common.source.line);
        tracing::warn!(
            tool = &*tool.name,
            %source,
            "tool without a description: models need one to decide when to call it; add a doc comment to the function"
        );
    }
    for location in engine.profile.names.unused() {
        tracing::warn!(%location, "`Server::rename` or `Server::prefix` selects no function");
    }
}

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
    pub(super) http: HttpParts,
}

impl BuiltServer {
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
        let limit = self.engine.profile.limits.grace_period.saturating_add(self.engine.shutdown_margin());
        let stop = transport::shutdown_signal(limit);
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

/// An error that ends [`Server::serve`](crate::Server::serve) or [`Server::serve_stdio`](crate::Server::serve_stdio).
///
/// ```
/// use mcp_runtime::{ServeError, Server};
///
/// # #[allow(dead_code)]
/// async fn run(server: Server) -> std::io::Result<()> {
///     match server.serve_stdio().await {
///         Ok(()) => Ok(()),
///         Err(ServeError::Io(error)) => Err(error),
///         Err(error) => Err(std::io::Error::other(error)),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot be built.
    Build(BuildError),
    /// A stream failed.
    Io(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Io(error) => write!(f, "connection failed: {error}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(_) => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<BuildError> for ServeError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
