//! Configuring, building and serving a server.

mod build;
mod functions;
#[cfg(feature = "http")]
mod http;
mod settings;

pub use build::{BuiltServer, ServeError};

use std::sync::Arc;

use crate::{
    engine::{Profile, layers::Layer},
    handle::Handle,
    handler::{
        SchemaProfile, StateMap,
        entry::{Collect, Entry, EntryGroup, EntryInfo},
    },
    model::Implementation,
    stdx::{debug, setters},
    telemetry::{SharedTelemetry, Telemetry},
};

/// A server under construction: annotated functions, the state they share, and options.
///
/// `main!()` creates and serves one. A `#[server]` function receives one and adds state and options.
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
    /// The entries that are disabled at startup.
    disabled: Vec<Entry>,
    states: StateMap,
    pub(crate) profile: Profile,
    #[cfg(feature = "cluster")]
    cluster: crate::cluster::ClusterOptions,
    handle: Handle,
    mounts: Vec<functions::Mount>,
    /// The handles of the servers that were mounted.
    mounted_handles: Vec<(Arc<EntryGroup>, Handle)>,
    #[cfg(feature = "skills")]
    skills: Vec<std::path::PathBuf>,
    problems: Vec<String>,
    #[cfg(feature = "http")]
    authenticator: Option<Arc<dyn crate::auth::Authenticator>>,
}

impl Server {
    /// Creates a server with every annotated function of the program, in all crates.
    ///
    /// The program contains a library only if its code refers to it. If nothing else does, write
    /// `use toolbox as _;`. Programs with [`main!()`](crate::main) or [`#[server]`](crate::server) log a warning about
    /// dependencies with a path whose functions are missing.
    ///
    /// ```no_run
    /// use mcp_runtime::{Server, tool};
    ///
    /// /// Add two numbers.
    /// #[tool]
    /// fn add(a: f64, b: f64) -> f64 {
    ///     a + b
    /// }
    ///
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> Result<(), mcp_runtime::ServeError> {
    ///     Server::new("adder", env!("CARGO_PKG_VERSION")).serve_stdio().await
    /// }
    /// ```
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut server = Self::empty(name, version);
        server.entries.extend(inventory::iter::<Entry>().cloned());
        server
    }

    /// Creates a server without functions. [`with`](Self::with) adds them.
    pub fn empty(name: impl Into<String>, version: impl Into<String>) -> Self {
        let (handle, alive) = Handle::new();
        Self {
            entries: Vec::new(),
            disabled: Vec::new(),
            states: StateMap::default(),
            profile: Profile {
                identity: Implementation { name: name.into(), version: version.into(), ..Implementation::default() },
                alive: vec![Arc::new(alive)],
                ..Profile::default()
            },
            #[cfg(feature = "cluster")]
            cluster: Default::default(),
            handle,
            mounts: Vec::new(),
            mounted_handles: Vec::new(),
            #[cfg(feature = "skills")]
            skills: Vec::new(),
            problems: Vec::new(),
            #[cfg(feature = "http")]
            authenticator: None,
        }
    }

    /// Adds a function by its name, or the functions of a `#[tools]` block by the name of its type.
    ///
    /// The attribute of a function defines a type of the same name, so the name is written in angle brackets. For a
    /// function without an attribute, the compiler reports *constant provided when a type was expected*: annotate it with
    /// `#[tool]`, `#[resource]` or `#[prompt]`.
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

    /// Adds a tool, resource or prompt that the program creates at run time. Scopes, names, layers, timeouts and visibility
    /// apply as for annotated functions. A [`Handle`] adds and removes entries later.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, function::ToolEntry};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Query {
    ///     text: String,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut server = Server::empty("search", "1.0.0");
    /// for collection in ["notes", "mails"] {
    ///     let schema = json!({
    ///         "type": "object",
    ///         "properties": {"text": {"type": "string", "minLength": 1}},
    ///         "required": ["text"],
    ///     });
    ///     let search = ToolEntry::new(format!("search_{collection}"), schema, move |query: Query, _: Context| async move {
    ///         format!("no {collection} contain {:?}", query.text)
    ///     });
    ///     server = server.with_entry(search.description(format!("Search the {collection}.")));
    /// }
    /// let mut client = server.test_client(Revision::V2026_07_28);
    /// let found = client.call("search_mails", json!({"text": "invoice"})).await.unwrap();
    /// assert_eq!(found.text(), "no mails contain \"invoice\"");
    /// assert!(client.call("search_mails", json!({"text": ""})).await.unwrap().is_error());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the name, the URI, the schema or a key of `_meta` is invalid.
    pub fn with_entry(mut self, entry: impl Into<Entry>) -> Self {
        self.entries.push(entry.into());
        self
    }

    /// Adds functions like [`with`](Self::with), but disabled. [`Handle::enable`](crate::Handle::enable) enables them.
    ///
    /// ```
    /// use mcp_runtime::{Handle, Revision, Server, tool};
    ///
    /// /// Delete everything.
    /// #[tool(destructive)]
    /// fn delete() {}
    ///
    /// /// Enable `delete`.
    /// #[tool]
    /// fn unlock(handle: &Handle) -> bool {
    ///     handle.enable::<delete>()
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let server = Server::empty("files", "1.0.0").with::<unlock>().with_disabled::<delete>();
    /// let mut client = server.test_client(Revision::V2026_07_28);
    /// assert!(client.call("delete", ()).await.is_err());
    /// client.call("unlock", ()).await.unwrap();
    /// assert!(client.call("delete", ()).await.is_ok());
    /// # });
    /// ```
    pub fn with_disabled<C: Collect>(mut self) -> Self {
        self.disabled.extend_from_slice(C::entries());
        self.with::<C>()
    }

    /// Adds shared state of type `T`. Functions receive it as `&T`.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// struct Greeting(&'static str);
    ///
    /// /// Greet a person.
    /// #[tool]
    /// fn greet(greeting: &Greeting, name: String) -> String {
    ///     format!("{}, {name}!", greeting.0)
    /// }
    ///
    /// let server = Server::empty("greeter", "1.0.0").with::<greet>().with_state(Greeting("Hello"));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if there are two values of the same type.
    pub fn with_state<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared(Arc::new(value))
    }

    /// Adds shared state that is also used elsewhere, like [`with_state`](Self::with_state). `T` may be a trait object.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tool};
    /// use std::sync::{Arc, atomic::AtomicU32};
    ///
    /// /// Return the number of visitors.
    /// #[tool]
    /// fn visitors(count: &AtomicU32) -> u32 {
    ///     count.load(std::sync::atomic::Ordering::Relaxed)
    /// }
    ///
    /// let count = Arc::new(AtomicU32::new(0));
    /// let server = Server::empty("shop", "1.0.0").with::<visitors>().with_shared(Arc::clone(&count));
    /// ```
    pub fn with_shared<T: ?Sized + Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        if !self.states.insert(value) {
            let name = std::any::type_name::<T>();
            self.problems.push(format!("duplicate state of type `{name}`\nhelp: wrap one of the values in a newtype"));
        }
        self
    }

    /// Serves a directory of [agent skills](https://agentskills.io/specification). Each directory with a `SKILL.md`, at
    /// any depth, is a skill. May be called several times.
    ///
    /// In every revision of the protocol, each file is a resource with the URI `skill://<directories>/<name>/<file>`.
    /// Clients of stateless revisions also discover the skills through the extension `io.modelcontextprotocol/skills`.
    ///
    /// All files are read into memory when the server is built: later changes take effect after a restart, and no URI
    /// gives access to the file system. A subscription to a file is accepted, and nothing is ever sent for it. Files outside
    /// skills are ignored, and so are files and directories whose names start with a dot. A relative path is resolved
    /// against the working directory of the process.
    ///
    /// [`visible_to`](Self::visible_to) treats a skill with all its files as one entry: a resource that has the skill's
    /// name, the tag `skill` and no crate. Its module is the path of the skill's directory, relative to `directory`.
    /// [`only`](Self::only) and handles do not affect skills.
    ///
    /// ```no_run
    /// # use mcp_runtime::Server;
    /// let server = Server::new("billing", "1.0.0").with_skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the directory cannot be read, if a `SKILL.md` has no front matter with `name`
    /// and `description`, if its `compatibility` is not a text of 1 to 500 characters or its `metadata` not an object, if
    /// a skill's name is invalid or differs from its directory's, if a skill has more than 512 files or 16 MiB, if there
    /// are more than 16,384 files in total, or if a symbolic link points outside the directory.
    #[cfg(feature = "skills")]
    pub fn with_skills(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.skills.push(directory.into());
        self
    }

    /// Returns a handle that changes the server once it is built. The server then declares to clients that its lists
    /// can change.
    ///
    /// ```
    /// use mcp_runtime::Server;
    ///
    /// let server = Server::empty("clock", "1.0.0");
    /// let handle = server.handle();
    /// let server = server.build().unwrap();
    /// handle.resource_updated("clock://now");
    /// # drop(server);
    /// ```
    pub fn handle(&self) -> Handle {
        self.handle.issue()
    }

    /// Runs a function when a client announces that its roots have changed, with the session of the client.
    ///
    /// The function runs as a separate task, at most once at a time per session: changes that are announced while it
    /// runs cause one more run. It is aborted when the session ends. A panic is logged. The function is never called
    /// for clients of stateless revisions, which do not announce changes.
    ///
    /// ```
    /// # use mcp_runtime::{Server, Session};
    /// # fn configure(server: Server) -> Server {
    /// server.on_roots_changed(|session: Session| async move {
    ///     match session.roots().await {
    ///         Ok(roots) => println!("{} roots", roots.len()),
    ///         Err(error) => eprintln!("the roots are unknown: {error}"),
    ///     }
    /// })
    /// # }
    /// ```
    ///
    /// See [Roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes).
    #[cfg(feature = "ask")]
    pub fn on_roots_changed<F>(mut self, run: impl Fn(crate::Session) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.profile.roots_hook = Some(crate::engine::RootsHook::new(run));
        self
    }

    setters! {
        /// Wraps every call in a layer, which observes the call and its outcome, and may respond in place of the
        /// function. The first layer added is the outermost.
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
        /// See [`layers`](crate::layers) for the available layers and for writing your own.
        pub fn layer(self, layer: impl Layer) { self.profile.layers.push(layer, None) }

        /// Wraps the calls of the functions for which `applies` returns `true` in a [layer](Self::layer).
        ///
        /// ```
        /// # use mcp_runtime::{Server, layers::LogCalls};
        /// # fn configure(server: Server) -> Server {
        /// server.layer_for(|entry| entry.has_tag("admin"), LogCalls::new().with_arguments())
        /// # }
        /// ```
        pub fn layer_for(self, applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static, layer: impl Layer) {
            self.profile.layers.push(layer, Some(Arc::new(applies)))
        }

        /// Connects the server to a telemetry system: spans to the traces of clients, and measurements. A second call
        /// replaces the first.
        ///
        /// ```
        /// # use mcp_runtime::{Server, telemetry::{Operation, Telemetry}};
        /// struct Slow;
        ///
        /// impl Telemetry for Slow {
        ///     fn server_operation(&self, operation: &Operation<'_>) {
        ///         if operation.duration.as_secs() > 10 {
        ///             eprintln!("{} took {:?}", operation.method, operation.duration);
        ///         }
        ///     }
        /// }
        ///
        /// # fn configure(server: Server) -> Server {
        /// server.telemetry(Slow)
        /// # }
        /// ```
        ///
        /// See [Observability](crate::guide::observability).
        pub fn telemetry(self, telemetry: impl Telemetry) {
            self.profile.telemetry = Some(SharedTelemetry::new(telemetry))
        }

        /// Sets the form in which the schemas of tools are listed. The default is [`SchemaProfile::Compatible`]. All
        /// calls are checked against the whole contract, whatever is listed.
        ///
        /// ```
        /// # use mcp_runtime::{Server, function::SchemaProfile};
        /// # fn configure(server: Server) -> Server {
        /// // List everything that is enforced, for clients that validate arguments themselves.
        /// server.schemas(SchemaProfile::Exact)
        /// # }
        /// ```
        pub fn schemas(self, profile: SchemaProfile) { self.profile.schemas = profile }

        /// Sets whether structured results are checked against the output schema of their tool before they are sent. By
        /// default, they are checked in debug builds and if [`Server::test_client`](Self::test_client) serves them.
        ///
        /// A call whose result does not match fails with an error that names each wrong value and the rule that it
        /// violates. The reason is a `Serialize` that differs from `JsonSchema`, or a layer that changes results. A
        /// result whose check would take too long, such as one with many alternatives, is sent unchecked.
        ///
        /// ```
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// // Also in release builds.
        /// server.check_results(true)
        /// # }
        /// ```
        pub fn check_results(self, checks: bool) { self.profile.checks_results = Some(checks) }
    }
}

/// Sharing state with other processes.
#[cfg(feature = "cluster")]
impl Server {
    /// The minimum lease. With a shorter lease, a busy machine would lose calls.
    const MIN_LEASE: std::time::Duration = std::time::Duration::from_secs(1);

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
    pub fn backend(self, backend: impl crate::backend::Backend) -> Self {
        self.shared_backend(Arc::new(backend))
    }

    setters! {
        /// Lets this server use a backend while processes of a server with another name use it, as during a rolling
        /// update to a release with a new name. Otherwise, such a backend is an error at startup, since clients would
        /// find sessions whose tools differ from the tools of the process that they reach.
        ///
        /// A backend belongs to a name as long as processes of that name run, and for a [lease](Self::lease) longer. A
        /// session belongs to the name for as long as it exists: to servers with other names, it is unknown. Releases
        /// with the same name and different versions may always share a backend.
        ///
        /// Tasks, the state of questions and, with `--backend`, the keys of Redis belong to the first name for which
        /// this method is called. Without it, they belong to the current name, and what was stored before is unknown.
        ///
        /// ```
        /// # use mcp_runtime::{Server, backend::MemoryBackend};
        /// let server = Server::empty("tracker", "2.0.0").renamed_from("notes").backend(MemoryBackend::default());
        /// ```
        pub fn renamed_from(self, name: impl Into<String>) { self.profile.former_names.push(name.into()) }

        /// Sets the backend, which other servers may use as well.
        pub(crate) fn shared_backend(self, backend: Arc<dyn crate::backend::Backend>) {
            self.cluster.backend = Some(backend)
        }

        /// Sets the time after which the other processes that share the [backend](Self::backend) consider this process
        /// gone, if it gives no sign of life. Clients that wait for one of its calls then receive an error. The default
        /// is 10 seconds, and the minimum is one second.
        ///
        /// The process gives a sign of life three times in this period. A process that cannot reach the backend for so
        /// long fails its calls, since the other processes consider them lost.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::Server;
        /// # fn configure(server: Server) -> Server {
        /// server.lease(Duration::from_secs(5))
        /// # }
        /// ```
        pub fn lease(self, lease: std::time::Duration) {
            self.cluster.lease = lease.clamp(Self::MIN_LEASE, crate::engine::MAX_PERIOD)
        }
    }
}

debug!(
    Server, self,
    name: self.profile.identity.name,
    entries: self.entries.iter().map(|entry| &*entry.common().name).collect::<Vec<_>>()
);
