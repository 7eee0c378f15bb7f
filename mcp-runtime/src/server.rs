//! The server: what an author configures.

use std::{any::TypeId, fmt, io, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    backend::{TaskLimits, TaskStore},
    engine::{Caller, Connection, Engine, Profile, StateKey, Visibility, layers::Layer},
    error::BuildError,
    handle::Handle,
    handler::{
        StateMap,
        entry::{Collect, Entry, EntryInfo},
    },
    model::{Icon, Implementation},
    registry::{Registry, Selection, ServerCapabilities, Skills},
    revision::Revision,
    testing::TestClient,
    transport::{self, Stdio},
};

/// A server: annotated functions, what they take by reference, and how it presents itself.
///
/// `main!()` makes one and serves it; `#[server]` gives one to the author's `main`, who adds state and options.
///
/// ```
/// use mcp_runtime::{Revision, Server, tool};
///
/// struct Db(Vec<&'static str>);
///
/// /// Count the notes.
/// #[tool(read_only)]
/// fn count(db: &Db) -> usize {
///     db.0.len()
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let server = Server::empty("notes", "1.0.0").with::<count>().with_state(Db(vec!["buy milk"]));
/// let mut client = server.test_client(Revision::V2026_07_28);
/// assert_eq!(client.call("count", ()).await.unwrap().text(), "1");
/// # });
/// ```
#[must_use]
pub struct Server {
    entries: Vec<Entry>,
    /// Those that are not offered before somebody enables them.
    disabled: Vec<Entry>,
    states: StateMap,
    profile: Profile,
    handle: Handle,
    #[cfg(feature = "skills")]
    skills: Vec<std::path::PathBuf>,
    problems: Vec<String>,
}

impl Server {
    /// A server of every annotated function in the program, whatever crate it stands in.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut server = Self::empty(name, version);
        server.entries.extend(inventory::iter::<Entry>().copied());
        server
    }

    /// A server of nothing; [`with`](Self::with) adds functions.
    pub fn empty(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            entries: Vec::new(),
            disabled: Vec::new(),
            states: StateMap::default(),
            profile: Profile {
                identity: Implementation { name: name.into(), version: version.into(), ..Implementation::default() },
                ..Profile::default()
            },
            handle: Handle::untaken(),
            #[cfg(feature = "skills")]
            skills: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Adds the function, or the functions of the `#[tools]` block, that a type stands for.
    ///
    /// ```
    /// use mcp_runtime::{Server, tool};
    ///
    /// /// Add two numbers.
    /// #[tool]
    /// fn add(a: f64, b: f64) -> f64 {
    ///     a + b
    /// }
    ///
    /// let server = Server::empty("adder", "1.0.0").with::<add>();
    /// assert!(server.check().is_ok());
    /// ```
    pub fn with<C: Collect>(mut self) -> Self {
        self.entries.extend_from_slice(C::entries());
        self
    }

    /// Adds what a type stands for, and does not offer it before [`Handle::enable`] does.
    pub fn disabled<C: Collect>(mut self) -> Self {
        self.disabled.extend_from_slice(C::entries());
        self.with::<C>()
    }

    /// Gives a handle that changes the server once it is built, and has it tell its clients that it may change.
    pub fn handle(&self) -> Handle {
        self.handle.take()
    }

    /// Shows each caller only the functions for which `sees` is true. To all others it is as if they were not there: they are in no
    /// list, and to use one is answered as if it were unknown.
    ///
    /// It is asked for every request, so it should not take long. Everybody is told when a list changed, whoever sees what did.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.visible_to(|caller, entry| !entry.has_tag("admin") || caller.principal() == Some("root"))
    /// # }
    /// ```
    pub fn visible_to(mut self, sees: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.profile.visibility = Some(Visibility::new(sees));
        self
    }

    /// Puts a layer around every call: it sees what is called, by whom and how it ends, and may answer in the function's
    /// place. The first that is added is the outermost.
    ///
    /// ```
    /// use mcp_runtime::{Server, layers::LogCalls, tool};
    ///
    /// /// Add two numbers.
    /// #[tool]
    /// fn add(a: f64, b: f64) -> f64 {
    ///     a + b
    /// }
    ///
    /// let server = Server::empty("adder", "1.0.0").with::<add>().layer(LogCalls::new());
    /// ```
    ///
    /// See [`layers`](crate::layers) for those that are there, and how to write one.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.profile.layers.push(Arc::new(layer), None);
        self
    }

    /// Puts a layer around the calls of those functions for which `applies` is true, see [`layer`](Self::layer).
    ///
    /// ```
    /// # use mcp_runtime::{Server, layers::LogCalls};
    /// # fn configure(server: Server) -> Server {
    /// server.layer_for(|entry| entry.has_tag("admin"), LogCalls::new().with_arguments())
    /// # }
    /// ```
    pub fn layer_for(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        layer: impl Layer,
    ) -> Self {
        self.profile.layers.push(Arc::new(layer), Some(Arc::new(applies)));
        self
    }

    /// Serves a directory of [agent skills](https://agentskills.io/specification): in it, or in directories of any depth below, each
    /// skill is a directory with a `SKILL.md`. Several calls serve several directories.
    ///
    /// A file is a resource with the URI `skill://<directories>/<name>/<file>`, in every revision of the protocol; clients of revision
    /// 2026-07-28 are also told of the skills as such, by the extension `io.modelcontextprotocol/skills`.
    ///
    /// Everything is read when the server is built, and kept in memory: what is served is what its digest says, and no URI leads to the
    /// file system. What is changed later is served after a restart. Files and directories whose names begin with a dot are left out, and
    /// so is what belongs to no skill. A relative path is one from the process's working directory.
    ///
    /// For [`visible_to`](Self::visible_to) a skill with all its files is one entry: a resource with the skill's name, the tag `skill`, no
    /// crate, and as its module the skill's directory below this one. [`only`](Self::only) and handles leave skills alone.
    ///
    /// ```no_run
    /// # use mcp_runtime::Server;
    /// let server = Server::new("billing", "1.0.0").skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) refuses a directory that cannot be read, a `SKILL.md` without a front matter with `name` and `description`, a
    /// name that is none for a skill or differs from its directory's, a skill of more than 512 files or 16 MiB, more than 16,384 files in all, and a link that leads
    /// out of the directory.
    #[cfg(feature = "skills")]
    pub fn skills(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.skills.push(directory.into());
        self
    }

    /// Gives a value to the functions that take `&T`. One of a type.
    pub fn with_state<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared(Arc::new(value))
    }

    /// Gives a value that somebody else holds as well to the functions that take `&T`, which may be a trait object.
    pub fn with_shared<T: ?Sized + Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        if !self.states.insert(value) {
            let name = std::any::type_name::<T>();
            self.problems
                .push(format!("two values of type `{name}` were given as state: functions could not tell them apart"));
        }
        self
    }

    /// Keeps the functions for which `keep` is true.
    pub fn only(mut self, keep: impl Fn(&EntryInfo<'_>) -> bool) -> Self {
        self.entries.retain(|entry| keep(&entry.info()));
        self
    }

    /// Keeps the functions that have one of these tags.
    pub fn only_tags(self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let tags: Vec<_> = tags.into_iter().collect();
        self.only(|entry| tags.iter().any(|tag| entry.has_tag(tag.as_ref())))
    }

    /// Keeps the functions that stand in one of these crates, named as in their `Cargo.toml`.
    pub fn only_crates(self, crates: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let crates: Vec<_> = crates.into_iter().collect();
        self.only(|entry| crates.iter().any(|krate| krate.as_ref() == entry.krate))
    }

    /// Says the name for programs, in place of the crate's.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.profile.identity.name = name.into();
        self
    }

    /// Says the version, in place of the crate's.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.profile.identity.version = version.into();
        self
    }

    /// Says the name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.profile.identity.title = Some(title.into());
        self
    }

    /// Says what the server is, for people; `main!()` takes the crate's description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.profile.identity.description = Some(description.into());
        self
    }

    /// Says where people read more; `main!()` takes the crate's homepage.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.profile.identity.website_url = Some(url.into());
        self
    }

    /// Adds a picture.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.profile.identity.icons.push(icon);
        self
    }

    /// Tells the model how to use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.profile.instructions = Some(instructions.into());
        self
    }

    /// Sets how long a call may take, where its annotation does not say; 5 minutes unless set, `None` for ever.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.profile.limits.timeout = timeout.into();
        self
    }

    /// Sets the most calls that one connection may have in flight; 1024 unless set. More are refused.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.profile.limits.in_flight = calls.max(1);
        self
    }

    /// Sets the most bytes of one message; 16 MiB unless set. Longer ones are refused.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.profile.limits.message = bytes.max(1);
        self
    }

    /// Sets how long calls in flight may go on when the client has gone; 5 seconds unless set.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.profile.limits.grace = grace;
        self
    }

    /// Sets the most items of one page of a list; 1000 unless set.
    pub fn page_size(mut self, items: usize) -> Self {
        self.profile.limits.page = items.max(1);
        self
    }

    /// Sets how long clients of revision 2026-07-28 may keep lists; one minute unless set.
    pub fn list_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.list_ttl = ttl;
        self
    }

    /// Sets how long a client may take to answer one question; 10 minutes unless set. The time does not count as the call's own.
    ///
    /// In revision 2026-07-28 the call ends with its questions, see [`state_ttl`](Self::state_ttl).
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.profile.limits.answer = timeout;
        self
    }

    /// Sets how long the sealed state of a request is good, between one round and the next; an hour unless set.
    pub fn state_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.round = ttl;
        self
    }

    /// Sets the keys that seal the state of requests between their rounds: the first one seals, all of them open, so that a
    /// new key can be put in front of an old one.
    ///
    /// Without any the server makes a random one, which no other process knows: servers that share the work must share a key. The
    /// command line's `--state-key` and the environment's `MCP_STATE_KEY` take precedence.
    ///
    /// The state of a first round is not sealed, since there is nothing to gain by changing it: it holds only digests of the
    /// questions and of the request that they belong to, and is good for an answer to exactly those.
    ///
    /// See [Server requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow).
    pub fn state_keys(mut self, keys: impl IntoIterator<Item = StateKey>) -> Self {
        self.profile.state_keys = keys.into_iter().collect();
        self
    }

    /// Says where tasks are kept, in place of the server's own memory.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.profile.task_store = Some(Arc::new(store));
        self
    }

    /// Sets how long a task is kept from when it was made, where its client does not say; an hour unless set. When its time is
    /// over, it is gone, and its function is dropped if it still runs.
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.default_ttl = ttl;
        self
    }

    /// Sets the longest that a client may have a task kept; a day unless set.
    pub fn max_task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.max_ttl = ttl;
        self
    }

    /// Sets how often clients should ask for their tasks; every second unless set.
    pub fn task_poll_interval(mut self, interval: Duration) -> Self {
        self.profile.limits.tasks.poll_interval = interval;
        self
    }

    /// Sets how many tasks the server keeps, finished ones included. Calls that would exceed the limits are rejected, or run
    /// as plain calls if their tool allows it.
    pub fn max_tasks(mut self, limits: TaskLimits) -> Self {
        self.profile.limits.tasks.limits = limits;
        self
    }

    /// Sends the `tracing` events of functions to the client as log messages, as far as it asks for them.
    ///
    /// It needs the subscriber that `main!()` and `#[server]` install, or [`log_layer`](crate::log_layer) in the author's own.
    #[cfg(feature = "log")]
    pub fn forward_log(mut self) -> Self {
        self.profile.forwards_log = true;
        self
    }

    /// Says whether the server can be built, for a test of the author's.
    ///
    /// # Errors
    ///
    /// Duplicate names, missing state, invalid schemas: all of them, with the source lines that are to blame.
    pub fn check(self) -> Result<(), BuildError> {
        self.build().map(drop)
    }

    /// Serves stdin and stdout until stdin ends or the process is told to stop. See [`BuiltServer::serve_stdio`].
    ///
    /// # Errors
    ///
    /// A server that cannot be built, or the operating system's.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        Ok(self.build()?.serve_stdio().await?)
    }

    /// Serves one client over any pair of byte streams. See [`BuiltServer::serve`].
    ///
    /// # Errors
    ///
    /// A server that cannot be built, or the streams'.
    pub async fn serve<R, W>(self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        Ok(self.build()?.serve(reader, writer).await?)
    }

    /// Checks everything and makes the schemas, once for any number of connections.
    ///
    /// # Errors
    ///
    /// Duplicate names, missing state, invalid schemas: all of them, with the source lines that are to blame.
    pub fn build(mut self) -> Result<BuiltServer, BuildError> {
        #[cfg(feature = "lock")]
        crate::lock::refuse_strangers();
        self.states.insert_builtin(Arc::new(self.handle.clone()));
        #[cfg(feature = "skills")]
        let skills = Skills::read(&self.skills).unwrap_or_else(|problems| {
            self.problems.extend(problems);
            Skills::default()
        });
        #[cfg(not(feature = "skills"))]
        let skills = Skills::default();
        let selection = Selection { entries: self.entries, states: &self.states };
        let registry = Registry::new(skills, self.profile.forwards_log);
        let registry = match (registry.with(selection), self.problems) {
            (Ok(changed), problems) if problems.is_empty() => changed.unwrap_or(registry),
            (Ok(_), problems) => return Err(BuildError::new(problems)),
            (Err(error), mut problems) => {
                problems.extend_from_slice(error.problems());
                return Err(BuildError::new(problems));
            }
        };
        let registry = registry.set_enabled_entries(&self.disabled, false).unwrap_or(registry);
        let changes = self.handle.is_taken() || registry.takes(TypeId::of::<Handle>());
        let engine = Arc::new(Engine::new(registry, self.states, self.profile, changes));
        self.handle.connect(&engine);
        let registry = engine.registry();
        tracing::info!(
            server = engine.identity.name,
            tools = registry.tools().len(),
            resources = registry.resources().len(),
            templates = registry.templates().len(),
            prompts = registry.prompts().len(),
            skills = registry.skills().all().len(),
            "the server is built"
        );
        if registry.capabilities() == ServerCapabilities::default() {
            tracing::warn!(
                "the server offers nothing: no function was annotated in a crate that the program uses, or none was kept"
            );
        }
        if registry.skills().is_served() && registry.skills().all().is_empty() {
            tracing::warn!("the server was given directories of skills, but none of them holds a `SKILL.md`");
        }
        for tool in registry.tools().iter().filter(|tool| tool.entry.common.description.is_empty()) {
            tracing::warn!(
                tool = tool.entry.common.name,
                "a tool has no description, so that a model must guess what it does"
            );
        }
        drop(registry);
        Ok(BuiltServer { engine, handle: self.handle })
    }
}

/// A server that is built, and ready for connections. A clone is the same server.
#[derive(Debug, Clone)]
pub struct BuiltServer {
    engine: Arc<Engine>,
    handle: Handle,
}

impl BuiltServer {
    /// Gives a handle that changes the server, and has it tell its clients that it may change: those that connect from now on.
    pub fn handle(&self) -> Handle {
        self.engine.announce_changes();
        self.handle.take()
    }

    /// Serves stdin and stdout until stdin ends or the process is told to stop (SIGTERM or Ctrl-C), and what is in flight
    /// then is answered.
    ///
    /// From then on whatever the process prints goes to stderr on Unix. Elsewhere it must print nothing: that would stand between
    /// the messages.
    ///
    /// # Errors
    ///
    /// The operating system's; answers that the client did not read in time.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.serve_claimed(Stdio::claim()?).await
    }

    pub(crate) async fn serve_claimed(&self, stdio: Stdio) -> io::Result<()> {
        let (reader, writer) = stdio.into_streams()?;
        let stop = transport::stop(self.engine.limits.grace);
        transport::serve(Connection::new(Arc::clone(&self.engine)), reader, writer, stop).await
    }

    /// Serves one client over any pair of byte streams, a message a line, until `reader` ends and what is in flight then is
    /// answered.
    ///
    /// # Errors
    ///
    /// The streams'; answers that the client did not read in time. A client that has gone is no error.
    pub async fn serve<R, W>(&self, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        transport::serve(Connection::new(Arc::clone(&self.engine)), reader, writer, std::future::pending()).await
    }

    /// Connects a client in memory, for tests.
    pub fn test_client(&self, revision: Revision) -> TestClient {
        TestClient::connect(Connection::new(Arc::clone(&self.engine)), revision)
    }

    /// Serves HTTP on an address until the process is told to stop (SIGTERM or Ctrl-C), and what is in work then is answered.
    ///
    /// ```no_run
    /// # use mcp_runtime::{HttpOptions, Server};
    /// # async fn serve(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    /// server.build()?.serve_http(([127, 0, 0, 1], 8080), HttpOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An address that cannot be listened on, or that others can reach while no host is
    /// [allowed](crate::HttpOptions::allow_host).
    #[cfg(feature = "http")]
    pub async fn serve_http(
        &self,
        address: impl Into<std::net::SocketAddr>,
        options: crate::HttpOptions,
    ) -> io::Result<()> {
        let stop = transport::stop(self.engine.limits.grace);
        self.serve_http_until(address, options, stop, |address| tracing::info!(%address, "listening")).await
    }

    /// Serves HTTP on an address until `stop`; `ready` is told the address, with the port that was found for port 0.
    ///
    /// # Errors
    ///
    /// As [`serve_http`](Self::serve_http).
    #[cfg(feature = "http")]
    pub async fn serve_http_until(
        &self,
        address: impl Into<std::net::SocketAddr>,
        options: crate::HttpOptions,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(std::net::SocketAddr),
    ) -> io::Result<()> {
        let listener = self.bind_http(address.into(), options).await?;
        ready(listener.address());
        listener.serve(stop).await;
        Ok(())
    }

    #[cfg(feature = "http")]
    pub(crate) async fn bind_http(
        &self,
        address: std::net::SocketAddr,
        options: crate::HttpOptions,
    ) -> io::Result<transport::http::Listener> {
        transport::http::Listener::bind(Arc::clone(&self.engine), address, options).await
    }

    /// Makes a service of it, to be mounted into axum or anything else that speaks `http` and `tower`.
    #[cfg(feature = "http")]
    pub fn into_http_service(self, options: crate::HttpOptions) -> crate::HttpService {
        crate::HttpService::new(self.engine, options)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.entries.iter().map(|entry| entry.common().name).collect();
        f.debug_struct("Server")
            .field("name", &self.profile.identity.name)
            .field("entries", &names)
            .finish_non_exhaustive()
    }
}

/// Why serving ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// It never began: the server cannot be built.
    Build(BuildError),
    /// The streams failed.
    Io(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
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
