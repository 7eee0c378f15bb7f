use std::{any::TypeId, fmt, panic::Location, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{built::BuiltServer, capabilities, error::ServeError};
use crate::{
    backend::{TaskLimits, TaskStore},
    engine::{Caller, Engine, PingSchedule, Profile, RootsHook, SessionRates, StateKey, Visibility, layers::Layer},
    error::BuildError,
    handle::Handle,
    handler::{
        SchemaProfile, Session, StateMap,
        entry::{Collect, Entry, EntryInfo},
    },
    model::{Icon, Implementation},
    registry::{Change, Registry, Selection, ServerCapabilities, Skills},
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
    profile: Profile,
    handle: Handle,
    #[cfg(feature = "skills")]
    skills: Vec<std::path::PathBuf>,
    problems: Vec<String>,
}

impl Server {
    /// Creates a server with every annotated function of the program, in all crates.
    ///
    /// The program contains a library only if its code refers to it. If nothing else does, write
    /// `use toolbox as _;`. Programs with [`main!()`](crate::main) or [`#[server]`](crate::server) log a warning about
    /// dependencies with a path whose functions are missing.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut server = Self::empty(name, version);
        server.entries.extend(inventory::iter::<Entry>().copied());
        server
    }

    /// Creates a server without functions. [`with`](Self::with) adds them.
    pub fn empty(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            entries: Vec::new(),
            disabled: Vec::new(),
            states: StateMap::default(),
            profile: Profile {
                identity: Implementation { name: name.into(), version: version.into(), ..Implementation::default() },
                ..Profile::default()
            },
            handle: Handle::new(),
            #[cfg(feature = "skills")]
            skills: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Adds a function by its name, or the functions of a `#[tools]` block by the name of its type.
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

    /// Adds functions like [`with`](Self::with), but disabled. [`Handle::enable`] enables them.
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
    /// let server = Server::empty("files", "1.0.0").with::<unlock>().disabled::<delete>();
    /// let mut client = server.test_client(Revision::V2026_07_28);
    /// assert!(client.call("delete", ()).await.is_err());
    /// client.call("unlock", ()).await.unwrap();
    /// assert!(client.call("delete", ()).await.is_ok());
    /// # });
    /// ```
    pub fn disabled<C: Collect>(mut self) -> Self {
        self.disabled.extend_from_slice(C::entries());
        self.with::<C>()
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

    /// Hides functions from the callers for which `is_visible` returns `false`. Hidden functions are not listed, and
    /// calls to them fail as if they did not exist.
    ///
    /// The closure is called for every request, so it should be fast. All clients are notified of changed lists, even
    /// if the changed functions are hidden from them. In revision 2026-07-28, shared caches may not store the lists of a
    /// server with this rule, even if it hides nothing: their `cacheScope` is `private`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.visible_to(|caller, entry| !entry.has_tag("admin") || caller.principal() == Some("root"))
    /// # }
    /// ```
    pub fn visible_to(mut self, is_visible: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.profile.visibility = Some(Visibility::new(is_visible));
        self
    }

    /// Runs a function when a client announces that its roots have changed, with the session of the client.
    ///
    /// The function runs as a separate task, at most once at a time per session: changes that are announced while it
    /// runs cause one more run. It is aborted when the session ends. A panic is logged. The function is never called
    /// for clients of revision 2026-07-28, which do not announce changes.
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
    pub fn on_roots_changed<F>(mut self, run: impl Fn(Session) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.profile.roots_hook = Some(RootsHook::new(run));
        self
    }

    /// Wraps every call in a layer, which observes the call and its outcome, and may respond in place of the function.
    /// The first layer added is the outermost.
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
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.profile.layers.push(Arc::new(layer), None);
        self
    }

    /// Wraps the calls of the functions for which `applies` returns `true` in a [layer](Self::layer).
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

    /// Serves a directory of [agent skills](https://agentskills.io/specification). Each directory with a `SKILL.md`, at
    /// any depth, is a skill. May be called several times.
    ///
    /// In every revision of the protocol, each file is a resource with the URI `skill://<directories>/<name>/<file>`.
    /// Clients of revision 2026-07-28 also discover the skills through the extension `io.modelcontextprotocol/skills`.
    ///
    /// All files are read into memory when the server is built: later changes take effect after a restart, and no URI
    /// gives access to the file system. Files outside skills are ignored, and so are files and directories whose names
    /// start with a dot. A relative path is resolved against the working directory of the process.
    ///
    /// [`visible_to`](Self::visible_to) treats a skill with all its files as one entry: a resource that has the skill's
    /// name, the tag `skill` and no crate. Its module is the path of the skill's directory, relative to `directory`.
    /// [`only`](Self::only) and handles do not affect skills.
    ///
    /// ```no_run
    /// # use mcp_runtime::Server;
    /// let server = Server::new("billing", "1.0.0").skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the directory cannot be read, if a `SKILL.md` has no front matter with `name`
    /// and `description`, if a skill's name is invalid or differs from its directory's, if a skill has more than 512
    /// files or 16 MiB, if there are more than 16,384 files in total, or if a symbolic link points outside the
    /// directory.
    #[cfg(feature = "skills")]
    pub fn skills(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.skills.push(directory.into());
        self
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

    /// Keeps only the functions for which `keep` returns `true`, of those added so far.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// // Everything except one method of a `#[tools]` block.
    /// server.only(|entry| entry.function != "Notes::delete")
    /// # }
    /// ```
    pub fn only(mut self, keep: impl Fn(&EntryInfo<'_>) -> bool) -> Self {
        self.entries.retain(|entry| keep(&entry.info()));
        self
    }

    /// Keeps only the functions with at least one of these tags.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.only_tags(["search", "files"])
    /// # }
    /// ```
    pub fn only_tags(self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let tags: Vec<_> = tags.into_iter().collect();
        self.only(|entry| tags.iter().any(|tag| entry.has_tag(tag.as_ref())))
    }

    /// Keeps only the functions of these crates, named as in their `Cargo.toml`.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.only_crates([env!("CARGO_PKG_NAME"), "toolbox"])
    /// # }
    /// ```
    pub fn only_crates(self, crates: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let crates: Vec<_> = crates.into_iter().collect();
        self.only(|entry| crates.iter().any(|krate| krate.as_ref() == entry.krate))
    }

    /// Puts `prefix` in front of the names of the functions for which `applies` returns `true`, so that libraries whose
    /// names clash can be used together.
    ///
    /// The new names are used everywhere: in lists, calls, completions, logs and lock files. URIs do not change. The rule
    /// also applies to functions that are added later, by [`with`](Self::with) or by a [`Handle`]. Several rules may
    /// apply to a function, in the order in which they are added. A rule that applies to no function is logged as a
    /// warning when the server is built.
    ///
    /// ```
    /// # mod toolbox {
    /// /// Search the web.
    /// #[mcp_runtime::tool]
    /// pub fn search(query: &str) {}
    /// # }
    /// use mcp_runtime::{Revision, Server};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// // A library would be selected with `entry.krate == "toolbox"`.
    /// let server = Server::empty("search", "1.0.0").with::<toolbox::search>();
    /// let server = server.prefix(|entry| entry.module.ends_with("::toolbox"), "web_");
    /// let tools = server.test_client(Revision::V2026_07_28).tools().await.unwrap();
    /// assert_eq!(tools[0]["name"], "web_search");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if a resulting name is invalid, or if two tools or two prompts have the same name.
    #[track_caller]
    pub fn prefix(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        prefix: impl Into<String>,
    ) -> Self {
        self.profile.names.push(applies, Change::Prefix(prefix.into()), Location::caller());
        self
    }

    /// Renames the function for which `applies` returns `true`. Otherwise like [`prefix`](Self::prefix).
    ///
    /// ```
    /// use mcp_runtime::{Server, tool};
    ///
    /// /// Search the web.
    /// #[tool]
    /// fn search(query: &str) {}
    ///
    /// let server = Server::empty("search", "1.0.0").with::<search>();
    /// let server = server.rename(|entry| entry.is::<search>(), "search_web");
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the name is invalid, or if two tools or two prompts have the same name.
    #[track_caller]
    pub fn rename(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        name: impl Into<String>,
    ) -> Self {
        self.profile.names.push(applies, Change::Rename(name.into()), Location::caller());
        self
    }

    /// Sets the programmatic name of the server.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.profile.identity.name = name.into();
        self
    }

    /// Sets the version of the server.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.profile.identity.version = version.into();
        self
    }

    /// Sets the display name of the server.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.profile.identity.title = Some(title.into());
        self
    }

    /// Sets the description of the server. `main!()` and `#[server]` use the crate's description by default.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.profile.identity.description = Some(description.into());
        self
    }

    /// Sets the website of the server. `main!()` and `#[server]` use the crate's homepage by default.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.profile.identity.website_url = Some(url.into());
        self
    }

    /// Adds an icon.
    ///
    /// ```
    /// # use mcp_runtime::{Icon, Server};
    /// # fn configure(server: Server) -> Server {
    /// server.icon(Icon::new("https://example.com/icon.svg").with_mime_type("image/svg+xml").with_size("any"))
    /// # }
    /// ```
    pub fn icon(mut self, icon: Icon) -> Self {
        self.profile.identity.icons.push(icon);
        self
    }

    /// Sets instructions that tell the model how to use the server.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.instructions("Search before you add a note. Titles are unique.")
    /// # }
    /// ```
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.profile.instructions = Some(instructions.into());
        self
    }

    /// Declares an experimental capability, which is not part of the specification. `settings` must be an object.
    /// Functions read those of the client with [`Context::client_experimental`](crate::Context::client_experimental).
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # use serde_json::json;
    /// let server = Server::empty("charts", "1.0.0").experimental("com.example/charts", json!({"formats": ["svg"]}));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if `settings` is not an object, or if the capability is declared twice.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<serde_json::Value>) -> Self {
        let declared = &mut self.profile.declared.experimental;
        self.problems.extend(capabilities::declare(declared, "experimental capability", name.into(), settings.into()));
        self
    }

    /// Declares an extension of the protocol, with its settings. `name` needs a prefix, as in `com.example/charts`, and
    /// `settings` must be an object. Functions read the extensions of the client with
    /// [`Context::client_extension`](crate::Context::client_extension).
    ///
    /// Only clients of revision 2026-07-28 or later receive it: earlier revisions have no extensions.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # use serde_json::json;
    /// let server = Server::empty("charts", "1.0.0").extension("com.example/charts", json!({}));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if the name is not valid as a `_meta` key with a prefix, if it names an extension
    /// that the framework declares itself, if `settings` is not an object, or if the extension is declared twice.
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities).
    pub fn extension(mut self, name: impl Into<String>, settings: impl Into<serde_json::Value>) -> Self {
        let name = name.into();
        self.problems.extend(capabilities::check_extension(&name));
        let declared = &mut self.profile.declared.extensions;
        self.problems.extend(capabilities::declare(declared, "extension", name, settings.into()));
        self
    }

    /// Sets the timeout of calls whose annotation does not set one. The default is 5 minutes; `None` disables the
    /// timeout.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.timeout(Duration::from_secs(30))
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.profile.limits.timeout = timeout.into();
        self
    }

    /// Sets the maximum number of calls in flight on one connection. The default is 1024. Further calls are rejected.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.profile.limits.in_flight = calls.max(1);
        self
    }

    /// Sets the maximum rates of log messages, completions and requests about tasks in a session.
    pub fn session_rates(mut self, rates: SessionRates) -> Self {
        self.profile.limits.rates = rates;
        self
    }

    /// Sets the maximum size of a message. The default is 16 MiB. Longer messages are rejected.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.profile.limits.message_bytes = bytes.max(1);
        self
    }

    /// Sets how long calls in flight may continue after the client disconnects or the server is shut down. The default
    /// is 5 seconds.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.profile.limits.grace_period = grace;
        self
    }

    /// Sets the maximum number of items on a page of a list. The default is 1000.
    pub fn page_size(mut self, items: usize) -> Self {
        self.profile.limits.page_size = items.max(1);
        self
    }

    /// Sets how long clients of revision 2026-07-28 may cache lists. The default is one minute.
    ///
    /// Clients and gateways may share cached lists between users unless the lists may depend on the caller: with
    /// [`visible_to`](Self::visible_to), all lists are `private`, and if a resource has a `list` function, so is the list
    /// of resources. The contents of resources that functions read are always `private` and not cached.
    ///
    /// See [Caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field).
    pub fn list_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.list_ttl = ttl;
        self
    }

    /// Sets the timeout of requests to the client, such as elicitation and sampling. The default is 10 minutes. The
    /// wait does not count towards the timeout of the call.
    ///
    /// In revision 2026-07-28 a call ends when it asks the client something; see [`state_ttl`](Self::state_ttl).
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.profile.limits.answer_timeout = timeout;
        self
    }

    /// Pings clients that are silent for `interval`, and ends the session of a client that does not answer within
    /// `limit`. Both are clamped to between one millisecond and a year. By default, the server sends no pings, since
    /// not every client answers them.
    ///
    /// Any message of a client shows that it is alive. The server looks for messages once per `interval`, so a ping
    /// follows the last message after at most twice that time. Over HTTP, a client is pinged only while it has a stream
    /// open for messages that belong to no request, which it opens with GET. `limit` should exceed the longest time for
    /// which a function blocks its thread.
    ///
    /// When a session ends, its calls are cancelled. Over HTTP, its streams close, and requests that contain its id are
    /// rejected with status 404. Over stdio, the connection ends as if the input had ended. Clients of revision
    /// 2026-07-28 are never pinged: they have no sessions, and servers send them no requests.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.ping_interval(Duration::from_secs(30), Duration::from_secs(60))
    /// # }
    /// ```
    ///
    /// See [Ping](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping).
    pub fn ping_interval(mut self, interval: Duration, limit: Duration) -> Self {
        self.profile.limits.pings = Some(PingSchedule::new(interval, limit));
        self
    }

    /// Sets how long the sealed state of a request remains valid between two rounds. The default is one hour.
    pub fn state_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.round_ttl = ttl;
        self
    }

    /// Sets the keys that seal the state of requests between rounds. The first key seals new state, and every key opens
    /// existing state, so that keys can be rotated by adding the new one in front.
    ///
    /// By default, the server generates a random key that no other process knows. Replicas of a server must share a
    /// key. The option `--state-key` and the environment variable `MCP_STATE_KEY` take precedence.
    ///
    /// The state of a first round is not sealed, since a client gains nothing by changing it: it contains only digests
    /// of the request and its questions, and is accepted only together with them.
    ///
    /// ```
    /// # use mcp_runtime::{Server, StateKey, StateKeyError};
    /// # fn configure(server: Server, new: &str, old: &str) -> Result<Server, StateKeyError> {
    /// let keys: [StateKey; 2] = [new.parse()?, old.parse()?];
    /// Ok(server.state_keys(keys))
    /// # }
    /// ```
    ///
    /// See [Server requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow).
    pub fn state_keys(mut self, keys: impl IntoIterator<Item = StateKey>) -> Self {
        self.profile.state_keys = keys.into_iter().collect();
        self
    }

    /// Sets the store of tasks. By default they are kept in memory.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.profile.task_store = Some(Arc::new(store));
        self
    }

    /// Sets the time to live, counted from creation, of tasks whose client does not request one. The default is one
    /// hour. An expired task is deleted, and cancelled if it is still running.
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.default_ttl = ttl;
        self
    }

    /// Sets the maximum time to live that a client may request for a task. The default is one day.
    pub fn max_task_ttl(mut self, ttl: Duration) -> Self {
        self.profile.limits.tasks.max_ttl = ttl;
        self
    }

    /// Sets the interval at which clients should poll their tasks. The default is one second.
    pub fn task_poll_interval(mut self, interval: Duration) -> Self {
        self.profile.limits.tasks.poll_interval = interval;
        self
    }

    /// Sets how many tasks the server keeps, finished ones included. Calls that would exceed the limits are rejected,
    /// or run as plain calls if their tool allows it.
    ///
    /// ```
    /// # use mcp_runtime::{Server, TaskLimits};
    /// # fn configure(server: Server) -> Server {
    /// server.max_tasks(TaskLimits::default().total(10_000).per_owner(50))
    /// # }
    /// ```
    pub fn max_tasks(mut self, limits: TaskLimits) -> Self {
        self.profile.limits.tasks.limits = limits;
        self
    }

    /// Forwards the `tracing` events of functions to the client as log messages, at the level that the client requests.
    ///
    /// Only events whose target is in a crate that defines annotated functions are forwarded, since those of other
    /// libraries may contain what clients must not see. [`forward_log_targets`](Self::forward_log_targets) adds targets.
    /// If the operator sets `RUST_LOG`, events that it excludes are not forwarded either.
    ///
    /// Forwarding requires the subscriber that `main!()` and `#[server]` install, or [`log_layer`](crate::log_layer) in
    /// a subscriber of your own.
    #[cfg(feature = "log")]
    pub fn forward_log(mut self) -> Self {
        self.profile.forwards_log = true;
        self
    }

    /// Does the same as [`forward_log`](Self::forward_log), and forwards events of other targets as well: modules and
    /// everything inside them, or targets that events name explicitly.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.forward_log_targets(["billing_core", "sqlx::query"])
    /// # }
    /// ```
    #[cfg(feature = "log")]
    pub fn forward_log_targets(mut self, targets: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.profile.log_targets.extend(targets.into_iter().map(Into::into));
        self.forward_log()
    }

    /// Sets the form in which the schemas of tools are listed. The default is [`SchemaProfile::Compatible`]. All calls
    /// are checked against the whole contract, whatever is listed.
    pub fn schemas(mut self, profile: SchemaProfile) -> Self {
        self.profile.schemas = profile;
        self
    }

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
        self.build().map(drop)
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

    /// Checks the server and generates its schemas, once for any number of connections.
    ///
    /// # Errors
    ///
    /// Returns every problem with its source line: duplicate names, missing state, invalid schemas.
    pub fn build(mut self) -> Result<BuiltServer, BuildError> {
        #[cfg(feature = "lock")]
        crate::lock::intercept::reject_foreign_main();
        self.states.insert_builtin(Arc::new(self.handle.clone()));
        #[cfg(feature = "skills")]
        let skills = Skills::read(&self.skills).unwrap_or_else(|problems| {
            self.problems.extend(problems);
            Skills::default()
        });
        #[cfg(not(feature = "skills"))]
        let skills = Skills::default();
        let selection = Selection { entries: self.entries, names: &self.profile.names, states: &self.states };
        let registry = Registry::new(skills, self.profile.forwards_log, self.profile.schemas);
        let registry = match (registry.with(selection), self.problems) {
            (Ok(changed), problems) if problems.is_empty() => changed.unwrap_or(registry),
            (Ok(_), problems) => return Err(BuildError::new(problems)),
            (Err(error), mut problems) => {
                problems.extend_from_slice(error.problems());
                return Err(BuildError::new(problems));
            }
        };
        let registry = registry.set_enabled_entries(&self.disabled, false).unwrap_or(registry);
        let changes = self.handle.is_issued() || registry.takes(TypeId::of::<Handle>());
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
            "server built"
        );
        if registry.capabilities() == ServerCapabilities::default() {
            tracing::warn!(
                "the server has no functions: no linked crate has an annotated function, or all of them were filtered out"
            );
        }
        if registry.skills().is_served() && registry.skills().all().is_empty() {
            tracing::warn!("the skill directories contain no `SKILL.md`");
        }
        for tool in registry.tools().iter().filter(|tool| tool.entry.common.description.is_empty()) {
            let common = &tool.entry.common;
            let source = format_args!("{}:{}", common.source.file, common.source.line);
            tracing::warn!(
                tool = tool.function.name,
                %source,
                "tool without a description: models need one to decide when to call it; add a doc comment to the function"
            );
        }
        for location in engine.names.unused() {
            tracing::warn!(%location, "`Server::rename` or `Server::prefix` selects no function");
        }
        drop(registry);
        Ok(BuiltServer::new(engine, self.handle))
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
